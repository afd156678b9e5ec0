// Parts of an HTTP/2 session that both ends share: nghttp2's callbacks as an interface, writing to
// a KJ stream, and the queue of messages that wait for flow control.
#pragma once

#include <kj/async-io.h>
#include <nghttp2/nghttp2.h>

#include <deque>

namespace talos::grpc {

// Returns a header field, which refers to both texts.
nghttp2_nv field(kj::StringPtr name, kj::StringPtr value);

// nghttp2's callbacks for one session.
class H2SessionEvents {
 public:
  // Called when the header of a frame was received, but not for CONTINUATION frames.
  virtual void frameStarted(const nghttp2_frame_hd&) {}
  // Called when the headers of a request start.
  virtual void requestStarted(int32_t) {}
  // Called when a header field was received. Returns false to stop reading from the connection.
  virtual bool header(const nghttp2_frame& frame, kj::StringPtr name, kj::StringPtr value) = 0;
  // Called when data was received. Returns how much credit the stream gets back now. The connection
  // gets its credit at once: one unread stream must not stop the others.
  virtual size_t data(int32_t stream, kj::ArrayPtr<const kj::byte> bytes) = 0;
  // Called when a frame was received completely.
  virtual void frameReceived(const nghttp2_frame&) {}
  virtual void frameSent(const nghttp2_frame&) {}
  virtual void closed(int32_t stream, uint32_t code) = 0;
  // Fills in the next bytes of a stream, as many as exist and fit; returns nullptr for an unknown
  // stream. NGHTTP2_DATA_FLAG_… go into `flags`; without flags and bytes the stream waits for
  // nghttp2_session_resume_data().
  virtual kj::Maybe<size_t> fill(int32_t stream, kj::ArrayPtr<kj::byte> into, uint32_t& flags) = 0;

 protected:
  ~H2SessionEvents() noexcept(false) = default;
};

// Makes a session of either side without automatic window updates. The caller deletes it; `events`
// must outlive it.
enum class H2Side { kClient, kServer };
nghttp2_session* newH2Session(H2Side side, H2SessionEvents& events);
// Returns the body of a request or response, from H2SessionEvents::fill().
nghttp2_data_provider2 h2DataProvider();

// Writes everything that the session has to send, including data that is added meanwhile.
kj::Promise<void> writePending(nghttp2_session* session, kj::AsyncIoStream& stream);

// A queue of framed messages that wait to be sent.
class SendQueue {
 public:
  void add(kj::Array<const kj::byte> framed) {
    waiting += framed.size();
    frames.push_back(kj::mv(framed));
  }
  // Removes the next bytes, as many as exist and fit.
  size_t fill(kj::ArrayPtr<kj::byte> into);
  bool empty() const { return frames.empty(); }
  size_t size() const { return waiting; }
  // Returns the memory of the queue: a message is freed as a whole, and has a cost besides its
  // bytes.
  size_t memory() const { return waiting + offset + kCost * frames.size(); }
  // Returns true if the first message has been sent in part.
  bool midFrame() const { return offset > 0; }
  void clear();

 private:
  static constexpr size_t kCost = 64;
  std::deque<kj::Array<const kj::byte>> frames;
  size_t offset = 0;  // bytes of the first message that are sent
  size_t waiting = 0;
};

}  // namespace talos::grpc
