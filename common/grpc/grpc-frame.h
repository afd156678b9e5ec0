// The bytes of gRPC that are not HTTP/2's: message frames, deadlines and statuses. Pure.
//
// A frame is a byte (1: compressed, which nobody here asks for), the length in four bytes, big
// end first, and the message. A status is a number and a text in which bytes are percent-encoded.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/time.h>
#include <kj/vector.h>

#include "common/base/error.h"

namespace talos::grpc {

constexpr size_t kFrameHeader = 5;

// A frame's header in front of its message.
kj::Array<kj::byte> frame(kj::ArrayPtr<const kj::byte> message);

// Takes the bytes of a stream as they come and gives its messages. Keeps at most one unfinished
// message, whose memory grows with what has really come, not with what its header announces.
class FrameReader {
 public:
  // A message that is announced longer than `limit` bytes ends the stream.
  explicit FrameReader(size_t limit) : limit(limit) {}

  // Calls `message` for each one that is complete. What is wrong with the bytes; nothing more may
  // be fed then.
  kj::Maybe<kj::String> feed(kj::ArrayPtr<const kj::byte> bytes,
                             kj::FunctionParam<void(kj::Array<kj::byte>)> message);
  // Whether the stream may end here.
  bool atBoundary() const { return headerSize == 0; }
  // What the unfinished message has announced; 0 until its header is complete.
  size_t announced() const { return headerSize < kFrameHeader ? 0 : length; }

 private:
  size_t limit;
  kj::byte header[kFrameHeader];
  size_t headerSize = 0;
  size_t length = 0;
  kj::Vector<kj::byte> body;
};

// A value of the header grpc-timeout: at most eight digits and a unit, never longer than `left`,
// never nothing.
kj::String timeoutText(kj::Duration left);
// The time of such a value, however long: years are cut. None when it is not a valid one.
kj::Maybe<kj::Duration> parseTimeout(kj::StringPtr text);

// Of the header content-type: application/grpc, whatever the encoding of messages is called.
bool isGrpc(kj::StringPtr contentType);

// The text of the header grpc-message. A percent sign that begins no code stays as it is; what is
// not printable becomes a space.
kj::String statusText(kj::StringPtr encoded);

// The reverse: what is not printable ASCII is percent-encoded. A text that is longer than `most`
// bytes is cut, not within a character.
kj::String statusHeader(kj::StringPtr text, size_t most);

// A code of the header grpc-status, 1 to 16; any other is an internal error.
ErrorKind kindOfStatus(int code);
// The reverse.
int statusOfKind(ErrorKind kind);

}  // namespace talos::grpc
