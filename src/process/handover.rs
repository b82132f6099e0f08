//! The descriptors that a guard gets beside its three standard ones: they travel through its socket.
//!
//! A descriptor that is simply inherited would have to be open to every program which starts at the same moment.

use rustix::io::{Errno, FdFlags, fcntl_setfd, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The argument of a guard that is handed what the command reads.
pub(super) const INPUT: &str = "input";

/// The argument of a guard that is handed where the command's stderr goes.
pub(super) const ERRORS: &str = "errors";

/// One for each of the words above.
const MOST: usize = 2;

/// Sends descriptors, with the one byte that they need as a carrier. Does not block: the socket must be fresh.
pub(super) fn send(socket: impl AsFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors"));
    }
    retry_on_intr(|| sendmsg(&socket, &[IoSlice::new(b"d")], &mut control, SendFlags::empty()))?;
    Ok(())
}

/// Receives what [`send`] sent; waits for it. None of it is inherited by children.
pub(super) fn receive(socket: impl AsFd) -> Result<Vec<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut carrier = [0_u8];
    retry_on_intr(|| recvmsg(&socket, &mut [IoSliceMut::new(&mut carrier)], &mut control, RecvFlags::empty()))?;
    let mut received = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            received.extend(descriptors);
        }
    }
    for descriptor in &received {
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    Ok(received)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write, pipe};
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_arrive_in_order_and_are_gone_with_a_receiver_that_never_looks() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ((mut first, first_end), (mut second, second_end)) = (pipe().unwrap(), pipe().unwrap());
        send(&ours, &[first_end.as_fd(), second_end.as_fd()]).unwrap();
        drop((first_end, second_end));
        let received = receive(&theirs).unwrap();
        for (number, descriptor) in received.into_iter().enumerate() {
            std::fs::File::from(descriptor).write_all(number.to_string().as_bytes()).unwrap();
        }
        let mut text = String::new();
        first.read_to_string(&mut text).unwrap();
        second.read_to_string(&mut text).unwrap();
        assert_eq!(text, "01");

        let (mut reader, writer) = pipe().unwrap();
        send(&ours, &[writer.as_fd()]).unwrap();
        drop((writer, ours, theirs));
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
