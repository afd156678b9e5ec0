// Bytes of gRPC that are not HTTP/2's: message frames, deadlines and statuses. Pure.
//
// A frame is a byte (1: compressed, which we never request), the length in four bytes, big endian,
// and the message. A status is a number and a text with percent-encoded bytes.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/time.h>
#include <kj/vector.h>

#include "common/base/error.h"

namespace talos::grpc {

constexpr size_t kFrameHeader = 5;

// Returns the message with a frame's header in front.
kj::Array<kj::byte> frame(kj::ArrayPtr<const kj::byte> message);

// Splits the bytes of a stream into messages. Keeps at most one unfinished message, whose memory
// grows with the bytes received, not with the size that its header announces.
class FrameReader {
 public:
  // A message with an announced size of more than `limit` bytes ends the stream.
  explicit FrameReader(size_t limit) : limit(limit) {}

  // Calls `message` for each complete message. Returns an error if the bytes are not valid; feed()
  // must not be called after an error.
  kj::Maybe<kj::String> feed(kj::ArrayPtr<const kj::byte> bytes,
                             kj::FunctionParam<void(kj::Array<kj::byte>)> message);
  // Returns true if the stream may end at this point.
  bool atBoundary() const { return headerSize == 0; }
  // Returns the size that the unfinished message announces; 0 until its header is complete.
  size_t announced() const { return headerSize < kFrameHeader ? 0 : length; }

 private:
  size_t limit;
  kj::byte header[kFrameHeader];
  size_t headerSize = 0;
  size_t length = 0;
  kj::Vector<kj::byte> body;
};

// Returns a value of the header grpc-timeout: at most eight digits and a unit, never longer than
// `left`, never zero.
kj::String timeoutText(kj::Duration left);
// Returns the duration of such a value, at most a year; nullptr if it is not valid.
kj::Maybe<kj::Duration> parseTimeout(kj::StringPtr text);

// Returns true for a content-type of gRPC: application/grpc with any message encoding.
bool isGrpc(kj::StringPtr contentType);

// Returns the text of the header grpc-message, as a field of foreign text
// (common/text/foreign-text.h). A percent sign without a code stays unchanged.
kj::String statusText(kj::StringPtr encoded);

// Percent-encodes everything but printable ASCII, the reverse of statusText(). A text of more than
// `most` bytes is truncated, not within a character.
kj::String statusHeader(kj::StringPtr text, size_t most);

// Returns the kind for a code of the header grpc-status, 1 to 16; any other is an internal error.
ErrorKind kindOfStatus(int code);
// Does the reverse.
int statusOfKind(ErrorKind kind);

}  // namespace talos::grpc
