// The parts of an HTTP/2 session that both ends share: nghttp2's callbacks as an interface, writing
// to a KJ stream, and the queue of messages that wait for flow control.
#pragma once

#include <kj/async-io.h>
#include <nghttp2/nghttp2.h>

#include <deque>

namespace talos::grpc {

// A header field, which refers to both texts.
nghttp2_nv field(kj::StringPtr name, kj::StringPtr value);

// nghttp2's callbacks for one session.
class H2SessionEvents {
 public:
  // The header of a frame was received. Not called for CONTINUATION frames.
  virtual void frameStarted(const nghttp2_frame_hd&) {}
  // The headers of a request start.
  virtual void requestStarted(int32_t) {}
  // A header field was received. Returns false to stop reading from the connection.
  virtual bool header(const nghttp2_frame& frame, kj::StringPtr name, kj::StringPtr value) = 0;
  // Data was received. Returns how much credit the stream gets back now. The connection gets its
  // credit at once: one unread stream must not stop the others.
  virtual size_t data(int32_t stream, kj::ArrayPtr<const kj::byte> bytes) = 0;
  // A frame was received as a whole.
  virtual void frameReceived(const nghttp2_frame&) {}
  virtual void frameSent(const nghttp2_frame&) {}
  virtual void closed(int32_t stream, uint32_t code) = 0;
  // Fills in the next bytes of a stream, as many as there are and fit; returns none for an unknown
  // stream. NGHTTP2_DATA_FLAG_… go into `flags`; without flags and bytes the stream waits for
  // nghttp2_session_resume_data().
  virtual kj::Maybe<size_t> fill(int32_t stream, kj::ArrayPtr<kj::byte> into, uint32_t& flags) = 0;

 protected:
  ~H2SessionEvents() noexcept(false) = default;
};

// A session of either side without automatic window updates. The caller deletes it; `events`
// outlives it.
enum class H2Side { kClient, kServer };
nghttp2_session* newH2Session(H2Side side, H2SessionEvents& events);
// The body of a request or response, from H2SessionEvents::fill().
nghttp2_data_provider2 h2DataProvider();

// Writes everything that the session has to send, including what is added meanwhile.
kj::Promise<void> writePending(nghttp2_session* session, kj::AsyncIoStream& stream);

// A queue of framed messages that wait to be sent.
class SendQueue {
 public:
  void add(kj::Array<const kj::byte> framed) {
    waiting += framed.size();
    frames.push_back(kj::mv(framed));
  }
  // Removes the next bytes, as many as there are and fit.
  size_t fill(kj::ArrayPtr<kj::byte> into);
  bool empty() const { return frames.empty(); }
  size_t size() const { return waiting; }
  // The memory that it uses: a message is freed as a whole, and costs something besides its bytes.
  size_t memory() const { return waiting + offset + kCost * frames.size(); }
  // The first one has been sent in part.
  bool midFrame() const { return offset > 0; }
  void clear();

 private:
  static constexpr size_t kCost = 64;
  std::deque<kj::Array<const kj::byte>> frames;
  size_t offset = 0;  // of the first one, that are sent
  size_t waiting = 0;
};

}  // namespace talos::grpc
