// The bytes of gRPC that are not HTTP/2's: message frames, deadlines and statuses. Pure.
//
// A frame is a byte (1: compressed, which we never request), the length in four bytes, big
// end first, and the message. A status is a number and a text with percent-encoded bytes.
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

// Splits the bytes of a stream into messages. Keeps at most one unfinished message, whose memory
// grows with the bytes received, not with the size that its header announces.
class FrameReader {
 public:
  // A message that is announced longer than `limit` bytes ends the stream.
  explicit FrameReader(size_t limit) : limit(limit) {}

  // Calls `message` for each complete message. Returns an error if the bytes are not valid; after
  // it feed() must not be called again.
  kj::Maybe<kj::String> feed(kj::ArrayPtr<const kj::byte> bytes,
                             kj::FunctionParam<void(kj::Array<kj::byte>)> message);
  // True if the stream may end at this point.
  bool atBoundary() const { return headerSize == 0; }
  // The size that the unfinished message announces; 0 until its header is complete.
  size_t announced() const { return headerSize < kFrameHeader ? 0 : length; }

 private:
  size_t limit;
  kj::byte header[kFrameHeader];
  size_t headerSize = 0;
  size_t length = 0;
  kj::Vector<kj::byte> body;
};

// A value of the header grpc-timeout: at most eight digits and a unit, never longer than `left`,
// never zero.
kj::String timeoutText(kj::Duration left);
// The duration of such a value, at most a year. None when it is not valid.
kj::Maybe<kj::Duration> parseTimeout(kj::StringPtr text);

// True for a content-type of gRPC: application/grpc with any message encoding.
bool isGrpc(kj::StringPtr contentType);

// The text of the header grpc-message. A percent sign without a code stays as it is; it is
// a field of foreign text (common/text/foreign-text.h).
kj::String statusText(kj::StringPtr encoded);

// The reverse: percent-encodes everything but printable ASCII. A text that is longer than `most`
// bytes is truncated, not within a character.
kj::String statusHeader(kj::StringPtr text, size_t most);

// A code of the header grpc-status, 1 to 16; any other is an internal error.
ErrorKind kindOfStatus(int code);
// The reverse.
int statusOfKind(ErrorKind kind);

}  // namespace talos::grpc
