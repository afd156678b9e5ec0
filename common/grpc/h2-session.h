// What both ends of an HTTP/2 connection share: what nghttp2 tells, how its bytes get into a stream
// of KJ's, and the messages of a call that wait until flow control lets them go.
#pragma once

#include <kj/async-io.h>
#include <nghttp2/nghttp2.h>

#include <deque>

namespace talos::grpc {

// A header field, which refers to both texts.
nghttp2_nv field(kj::StringPtr name, kj::StringPtr value);

// What nghttp2 tells of a connection, to whom it was made with as `user`.
class H2Events {
 public:
  // A field of a frame of headers. False: enough; nothing more is read.
  virtual bool header(const nghttp2_frame& frame, kj::StringPtr name, kj::StringPtr value) = 0;
  // How much credit the stream gets back now. The connection has its own at once: one stream that
  // nobody reads must not stop the others.
  virtual size_t data(int32_t stream, kj::ArrayPtr<const kj::byte> bytes) = 0;
  virtual void closed(int32_t stream, uint32_t code) = 0;
  // The next bytes of a stream, as many as there are and fit; none: it is no more.
  // NGHTTP2_DATA_FLAG_… go into `flags`; without any, and without bytes, resume is waited for.
  virtual kj::Maybe<size_t> fill(int32_t stream, kj::ArrayPtr<kj::byte> into, uint32_t& flags) = 0;

 protected:
  ~H2Events() noexcept(false) = default;
};
void setEvents(nghttp2_session_callbacks* callbacks);  // all of them but fill()
nghttp2_data_provider2 eventsFill();

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
