// What both ends of an HTTP/2 connection share: how nghttp2's bytes get into a stream of KJ's, and
// the messages of a call that wait until flow control lets them go.
#pragma once

#include <kj/async-io.h>
#include <nghttp2/nghttp2.h>

#include <deque>

namespace talos::grpc {

// A header field, which refers to both texts.
nghttp2_nv field(kj::StringPtr name, kj::StringPtr value);

// Writes all that the session has to send by now, and what it gets to send meanwhile.
kj::Promise<void> writePending(nghttp2_session* session, kj::AsyncIoStream& stream);

// Framed messages that wait to be sent.
class Outbox {
 public:
  void add(kj::Array<const kj::byte> framed) {
    waiting += framed.size();
    frames.push_back(kj::mv(framed));
  }
  // Takes the next bytes out, as many as there are and fit.
  size_t fill(kj::ArrayPtr<kj::byte> into);
  bool empty() const { return frames.empty(); }
  size_t size() const { return waiting; }
  // The first one has been sent in part.
  bool midFrame() const { return offset > 0; }
  void clear();

 private:
  std::deque<kj::Array<const kj::byte>> frames;
  size_t offset = 0;  // of the first one, that are sent
  size_t waiting = 0;
};

}  // namespace talos::grpc
