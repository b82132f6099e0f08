//! Images: recognised by content, checked from end to end, and handed on as they are.
//!
//! A provider refuses a request with a broken or too large image in it, and every later one too, since the image stays in
//! the history. So nothing is handed on whose structure is not whole: its blocks follow each other up to the end, and PNG's
//! checksums are right. Pixels are not decoded, so an image that is too large is refused, not scaled down.

use super::limit::show_bytes;
use super::workspace::Shown;
use crate::query::Media;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The largest image, in bytes of base64, which is what providers count: 5 MB is the lowest limit of any.
const ENCODED: usize = 4_500_000;
/// The same in bytes of the file.
pub(super) const MAX_FILE: usize = ENCODED / 4 * 3;
/// The longest side: the limit where a request holds many images. Providers scale down to less by themselves.
const SIDE: u32 = 2_000;

/// A format that providers take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Png,
    Jpeg,
    Gif,
    WebP,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size(u32, u32);

/// Why an image is not whole, to follow `:`.
type Broken = &'static str;

const TOO_SHORT: Broken = "it ends too early";

impl Format {
    /// The format of a file that starts like this.
    pub(super) fn of(start: &[u8]) -> Option<Self> {
        if start.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if start.starts_with(b"\xff\xd8\xff") {
            Some(Self::Jpeg)
        } else if start.starts_with(b"GIF87a") || start.starts_with(b"GIF89a") {
            Some(Self::Gif)
        } else if start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP") {
            Some(Self::WebP)
        } else {
            None
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }

    const fn noun(self) -> &'static str {
        match self {
            Self::Png => "a PNG image",
            Self::Jpeg => "a JPEG image",
            Self::Gif => "a GIF image",
            Self::WebP => "a WebP image",
        }
    }

    /// Checks an image from end to end; notes its size as soon as that is known.
    fn check(self, bytes: &[u8], size: &mut Option<Size>) -> Result<(), Broken> {
        let mut rest = Rest(bytes);
        match self {
            Self::Png => png(&mut rest, size),
            Self::Jpeg => jpeg(&mut rest, size),
            Self::Gif => gif(&mut rest, size),
            Self::WebP => webp(&mut rest, size),
        }
    }
}

/// An image as a result. `bytes` may be cut one byte behind [`MAX_FILE`]; `length` is that of the file.
///
/// # Errors
/// Says in words what is wrong with it: broken, too large.
pub(super) fn picture(name: &str, format: Format, bytes: &[u8], length: u64) -> Result<Shown, String> {
    let noun = format.noun();
    let mut size = None;
    let checked = format.check(bytes, &mut size);
    let dimensions = size.map(|Size(width, height)| format!(", {width} x {height} pixels")).unwrap_or_default();
    let about = format!("`{name}` is {noun}{dimensions}, {}", show_bytes(length));
    let large = size.is_some_and(|Size(width, height)| width.max(height) > SIDE);
    if large || bytes.len() > MAX_FILE {
        return Err(format!(
            "{about}: too large to be shown, at most {SIDE} pixels a side and {} are. Make a smaller copy with a program in Bash \
             and read that.",
            show_bytes(MAX_FILE as u64)
        ));
    }
    let broken = |problem: Broken| format!("{about}, but it is broken and cannot be shown: {problem}.");
    checked.map_err(broken)?;
    match size {
        None => Err(broken("it has no size")),
        Some(Size(0, _) | Size(_, 0)) => Err(broken("it has no pixels")),
        Some(Size(..)) => {
            let media = Media { media_type: format.media_type(), data: STANDARD.encode(bytes).into() };
            Ok(Shown { text: format!("{about}."), media: vec![media] })
        }
    }
}

/// The bytes that are still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Broken> {
        self.array::<1>().map(|[byte]| byte)
    }
}

/// Signature, then chunks: length, kind, data, checksum of kind and data; IHDR first, IEND last.
fn png(rest: &mut Rest<'_>, size: &mut Option<Size>) -> Result<(), Broken> {
    rest.take(8)?;
    let mut pixels = false;
    loop {
        let length = u32::from_be_bytes(rest.array()?) as usize;
        let start = rest.0;
        let kind = rest.array::<4>()?;
        if size.is_none() {
            if kind != *b"IHDR" || length != 13 {
                return Err("it does not begin with its header");
            }
            let mut header = Rest(rest.0);
            *size = Some(Size(u32::from_be_bytes(header.array()?), u32::from_be_bytes(header.array()?)));
        }
        rest.take(length)?;
        if crc(&start[..4 + length]) != u32::from_be_bytes(rest.array()?) {
            return Err("a checksum in it is wrong");
        }
        match &kind {
            b"IDAT" => pixels = true,
            b"IEND" if pixels => return Ok(()),
            b"IEND" => return Err("there is no image in it"),
            _ => {}
        }
    }
}

/// The checksum of PNG.
fn crc(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let (mut value, mut bit) = (index as u32, 0);
            while bit < 8 {
                value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc: u32, byte| TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ (crc >> 8))
}

/// Markers, most with a length behind them; behind a scan's header its data up to the next marker.
fn jpeg(rest: &mut Rest<'_>, size: &mut Option<Size>) -> Result<(), Broken> {
    let mut pixels = false;
    loop {
        if rest.byte()? != 0xff {
            return Err("a marker is missing in it");
        }
        let mut marker = rest.byte()?;
        while marker == 0xff {
            marker = rest.byte()?;
        }
        match marker {
            0xd8 | 0x01 | 0xd0..=0xd7 => continue,
            0xd9 if pixels => return Ok(()),
            0xd9 => return Err("there is no image in it"),
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes(rest.array()?)).checked_sub(2).ok_or("a length in it is wrong")?;
        let mut segment = Rest(rest.take(length)?);
        match marker {
            // Start of frame, of any kind of coding.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                segment.byte()?;
                let (height, width) = (u16::from_be_bytes(segment.array()?), u16::from_be_bytes(segment.array()?));
                *size = Some(Size(width.into(), height.into()));
            }
            // Start of scan.
            0xda => {
                pixels = size.is_some();
                let is_end = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 0xd0..=0xd7 | 0xff);
                let end = rest.0.windows(2).position(is_end).ok_or(TOO_SHORT)?;
                rest.take(end)?;
            }
            _ => {}
        }
    }
}

/// Header, table of colours, then blocks, each with its kind first and in parts of at most 255 bytes, up to a trailer.
fn gif(rest: &mut Rest<'_>, size: &mut Option<Size>) -> Result<(), Broken> {
    fn colours(rest: &mut Rest<'_>, flags: u8) -> Result<(), Broken> {
        let length = if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
        rest.take(length).map(drop)
    }
    fn parts(rest: &mut Rest<'_>) -> Result<(), Broken> {
        loop {
            let length = rest.byte()?;
            if length == 0 {
                return Ok(());
            }
            rest.take(length.into())?;
        }
    }
    rest.take(6)?;
    let (width, height) = (u16::from_le_bytes(rest.array()?), u16::from_le_bytes(rest.array()?));
    *size = Some(Size(width.into(), height.into()));
    let [flags, _, _] = rest.array()?;
    colours(rest, flags)?;
    let mut pixels = false;
    loop {
        match rest.byte()? {
            b'!' => {
                rest.byte()?;
                parts(rest)?;
            }
            b',' => {
                let [.., flags] = rest.array::<9>()?;
                colours(rest, flags)?;
                rest.byte()?;
                parts(rest)?;
                pixels = true;
            }
            b';' if pixels => return Ok(()),
            b';' => return Err("there is no image in it"),
            _ => return Err("a block in it is of no known kind"),
        }
    }
}

/// A container of chunks: kind, length, data, padded to an even length.
fn webp(rest: &mut Rest<'_>, size: &mut Option<Size>) -> Result<(), Broken> {
    rest.take(4)?;
    let length = u32::from_le_bytes(rest.array()?) as usize;
    let mut chunks = Rest(rest.take(length)?);
    chunks.take(4)?;
    let mut pixels = false;
    while !chunks.0.is_empty() {
        let kind = chunks.array::<4>()?;
        let length = u32::from_le_bytes(chunks.array()?) as usize;
        let data = chunks.take(length)?;
        if length % 2 == 1 && !chunks.0.is_empty() {
            chunks.take(1)?;
        }
        match (&kind, data) {
            // The whole canvas, less one, in three bytes each.
            (b"VP8X", [_, _, _, _, w0, w1, w2, h0, h1, h2, ..]) => {
                let extent = |low, middle, high| u32::from_le_bytes([low, middle, high, 0]) + 1;
                *size = Some(Size(extent(*w0, *w1, *w2), extent(*h0, *h1, *h2)));
            }
            (b"VP8 ", [_, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..]) => {
                let extent = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
                size.get_or_insert(Size(extent(*w0, *w1), extent(*h0, *h1)));
                pixels = true;
            }
            (b"VP8L", [0x2f, a, b, c, d, ..]) => {
                let bits = u32::from_le_bytes([*a, *b, *c, *d]);
                size.get_or_insert(Size((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1));
                pixels = true;
            }
            (b"VP8X" | b"VP8 " | b"VP8L", _) => return Err("a header in it is wrong"),
            (b"ANMF", _) => pixels = true,
            _ => {}
        }
    }
    if pixels { Ok(()) } else { Err("there is no image in it") }
}

#[cfg(test)]
pub(super) mod tests;
