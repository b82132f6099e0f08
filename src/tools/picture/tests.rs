//! Small whole images, and what happens to them.

use super::*;
use proptest::prelude::*;

/// A chunk of a PNG.
fn chunk(kind: &[u8], data: &[u8]) -> Vec<u8> {
    let body = [kind, data].concat();
    [(data.len() as u32).to_be_bytes().as_slice(), &body, &crc(&body).to_be_bytes()].concat()
}

/// A PNG that says it has this size, with so many bytes of data.
pub(in crate::tools) fn a_png(width: u32, height: u32, data: usize) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    let chunks = [chunk(b"IHDR", &header), chunk(b"IDAT", &vec![0; data]), chunk(b"IEND", b"")].concat();
    [b"\x89PNG\r\n\x1a\n".as_slice(), &chunks].concat()
}

/// A picture of one pixel, made by an encoder.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const GIF: &str = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
const LOSSY: &str = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA";
const LOSSLESS: &str = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==";

fn decoded(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

/// A JPEG of 5 x 3 pixels as far as its structure goes: a progressive one, with two scans, a restart and a stuffed byte.
fn a_jpeg() -> Vec<u8> {
    let parts: [&[u8]; 8] = [
        b"\xff\xd8",
        b"\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0",
        b"\xff\xff\xc2\x00\x0b\x08\x00\x03\x00\x05\x01\x01\x11\x00",
        b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00",
        b"abc\xff\x00def\xff\xd0ghi",
        b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00",
        b"jkl",
        b"\xff\xd9",
    ];
    parts.concat()
}

/// An animated one of 300 x 200 pixels.
fn an_animation() -> Vec<u8> {
    let body = [
        b"WEBPVP8X\x0a\0\0\0\x02\0\0\0\x2b\x01\0\xc7\0\0".as_slice(),
        b"ANIM\x06\0\0\0\0\0\0\0\0\0",
        b"ANMF\x03\0\0\0abc\0",
    ]
    .concat();
    [b"RIFF".as_slice(), &(body.len() as u32).to_le_bytes(), &body].concat()
}

fn samples() -> Vec<(Vec<u8>, Format, Size)> {
    vec![
        (decoded(PNG), Format::Png, Size(1, 1)),
        (a_png(640, 480, 100), Format::Png, Size(640, 480)),
        (a_jpeg(), Format::Jpeg, Size(5, 3)),
        (decoded(GIF), Format::Gif, Size(1, 1)),
        (decoded(LOSSY), Format::WebP, Size(1, 1)),
        (decoded(LOSSLESS), Format::WebP, Size(1, 1)),
        (an_animation(), Format::WebP, Size(300, 200)),
    ]
}

fn show(bytes: &[u8]) -> Result<Shown, String> {
    let cut = &bytes[..bytes.len().min(MAX_FILE + 1)];
    picture("a", Format::of(bytes).unwrap(), cut, bytes.len() as u64)
}

#[test]
fn whole_images_are_handed_on_as_they_are() {
    for (bytes, format, expected) in samples() {
        assert_eq!(Format::of(&bytes), Some(format));
        let mut size = None;
        assert_eq!((format.check(&bytes, &mut size), size), (Ok(()), Some(expected)), "{format:?}");
        let shown = show(&bytes).unwrap();
        assert_eq!(decoded(&shown.media[0].data), bytes);
        assert_eq!((shown.media.len(), shown.media[0].media_type), (1, format.media_type()));
    }
    assert_eq!(show(&a_png(640, 480, 100)).unwrap().text, "`a` is a PNG image, 640 x 480 pixels, 157 bytes.");
    assert_eq!(Format::of(b"RIFF\0\0\0\0WAVE"), None);
}

#[test]
fn b153_what_is_cut_off_anywhere_is_never_handed_on() {
    for (bytes, format, _) in samples() {
        for end in 12..bytes.len() {
            let result = picture("a", format, &bytes[..end], end as u64);
            let error = result.expect_err(&format!("{format:?} up to {end} of {}", bytes.len()));
            assert!(error.contains("but it is broken and cannot be shown: "), "{error}");
        }
    }
}

#[test]
fn b153_a_png_with_a_bad_byte_is_never_handed_on() {
    let whole = a_png(3, 2, 20);
    for index in 8..whole.len() {
        let mut bytes = whole.clone();
        bytes[index] ^= 0x40;
        assert!(show(&bytes).is_err(), "byte {index}");
    }
}

#[test]
fn images_without_an_image_are_broken() {
    let empty = [b"\x89PNG\r\n\x1a\n".as_slice(), &chunk(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0])].concat();
    let empty = [empty, chunk(b"IEND", b"")].concat();
    assert!(show(&empty).unwrap_err().ends_with("there is no image in it."));
    assert!(show(b"GIF89a\x01\0\x01\0\0\0\0;").unwrap_err().ends_with("there is no image in it."));
    assert!(show(b"\xff\xd8\xff\xd9").unwrap_err().ends_with("there is no image in it."));
    assert!(show(b"RIFF\x04\0\0\0WEBP").unwrap_err().ends_with("there is no image in it."));
    assert!(show(&a_png(0, 7, 10)).unwrap_err().ends_with("it has no pixels."));
}

#[test]
fn b153_b154_limits_are_of_what_is_sent() {
    let frame = a_png(10, 10, 0).len();
    let largest = show(&a_png(2_000, 10, MAX_FILE - frame)).unwrap();
    assert!(largest.media[0].data.len() <= ENCODED);
    insta::assert_snapshot!(
        show(&a_png(10, 10, MAX_FILE - frame + 1)).unwrap_err(),
        @"`a` is a PNG image, 10 x 10 pixels, 3.4 MB: too large to be shown, at most 2000 pixels a side and 3.4 MB are. Make a smaller copy with a program in Bash and read that."
    );
    let error = show(&a_png(9_000, 100, 10)).unwrap_err();
    assert!(error.starts_with("`a` is a PNG image, 9000 x 100 pixels, 67 bytes: too large"), "{error}");
    // What says that it unfolds to more than any memory holds.
    assert!(show(&a_png(u32::MAX, u32::MAX, 10)).unwrap_err().contains("too large"));
    assert!(show(&a_png(10, 2_001, 7_000_000)).unwrap_err().contains("10 x 2001 pixels, 7.0 MB: too large"));
}

proptest! {
    /// Whatever the bytes, there is an answer.
    #[test]
    fn nothing_makes_it_panic(pick in 0..7_usize, at in 0..200_usize, noise in prop::collection::vec(any::<u8>(), 0..20)) {
        let (mut bytes, format, _) = samples().swap_remove(pick);
        let at = at.min(bytes.len());
        bytes.splice(at..(at + noise.len()).min(bytes.len()), noise);
        let length = bytes.len() as u64;
        drop(picture("a", format, &bytes, length));
    }
}
