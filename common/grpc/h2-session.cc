#include "common/grpc/h2-session.h"

#include <kj/debug.h>
#include <string.h>

namespace talos::grpc {
namespace {

constexpr size_t kWriteAtOnce = 16384;

uint8_t* bytesOf(kj::StringPtr text) {
  return reinterpret_cast<uint8_t*>(const_cast<char*>(text.begin()));  // nghttp2 copies them
}

H2SessionEvents& events(void* user) {
  return *static_cast<H2SessionEvents*>(user);
}

int onBeginFrame(nghttp2_session*, const nghttp2_frame_hd* header, void* user) {
  events(user).frameStarted(*header);
  return 0;
}

int onBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) events(user).requestStarted(frame->hd.stream_id);
  return 0;
}

int onHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t nameSize,
             const uint8_t* value, size_t valueSize, uint8_t, void* user) {
  // nghttp2 ends both with a zero.
  auto text = [](const uint8_t* bytes, size_t size) {
    return kj::StringPtr(reinterpret_cast<const char*>(bytes), size);
  };
  auto on = events(user).header(*frame, text(name, nameSize), text(value, valueSize));
  return on ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

int onData(nghttp2_session* h2, uint8_t, int32_t id, const uint8_t* data, size_t size, void* user) {
  nghttp2_session_consume_connection(h2, size);
  auto now = events(user).data(id, kj::arrayPtr(data, size));
  if (now > 0) nghttp2_session_consume_stream(h2, id, now);
  return 0;
}

int onFrameReceived(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  events(user).frameReceived(*frame);
  return 0;
}

int onFrameSent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  events(user).frameSent(*frame);
  return 0;
}

int onClose(nghttp2_session*, int32_t id, uint32_t code, void* user) {
  events(user).closed(id, code);
  return 0;
}

nghttp2_ssize onFill(nghttp2_session*, int32_t id, uint8_t* buffer, size_t size, uint32_t* flags,
                     nghttp2_data_source*, void* user) {
  KJ_IF_MAYBE (filled, events(user).fill(id, kj::arrayPtr(buffer, size), *flags)) {
    bool waits = *filled == 0 && *flags == NGHTTP2_DATA_FLAG_NONE;
    return waits ? NGHTTP2_ERR_DEFERRED : static_cast<nghttp2_ssize>(*filled);
  }
  return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

}  // namespace

nghttp2_session* newH2Session(H2Side side, H2SessionEvents& events) {
  nghttp2_session_callbacks* callbacks;
  KJ_ASSERT(nghttp2_session_callbacks_new(&callbacks) == 0);
  KJ_DEFER(nghttp2_session_callbacks_del(callbacks));
  nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, onBeginFrame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, onBeginHeaders);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onData);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrameReceived);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, onFrameSent);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onClose);
  nghttp2_option* option;
  KJ_ASSERT(nghttp2_option_new(&option) == 0);
  KJ_DEFER(nghttp2_option_del(option));
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_session* session;
  if (side == H2Side::kServer) {
    // FrameBudget limits resets.
    nghttp2_option_set_stream_reset_rate_limit(option, UINT64_MAX, UINT64_MAX);
    KJ_ASSERT(nghttp2_session_server_new2(&session, callbacks, &events, option) == 0);
  } else {
    KJ_ASSERT(nghttp2_session_client_new2(&session, callbacks, &events, option) == 0);
  }
  return session;
}

nghttp2_data_provider2 h2DataProvider() {
  nghttp2_data_provider2 body = {};
  body.read_callback = onFill;
  return body;
}

nghttp2_nv field(kj::StringPtr name, kj::StringPtr value) {
  return {bytesOf(name), bytesOf(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

kj::Promise<void> writePending(nghttp2_session* session, kj::AsyncIoStream& stream) {
  kj::Vector<kj::byte> batch;
  for (;;) {
    batch.clear();
    while (batch.size() < kWriteAtOnce) {
      const uint8_t* data;
      auto size = nghttp2_session_mem_send2(session, &data);
      KJ_REQUIRE(size >= 0, nghttp2_strerror(static_cast<int>(size)));
      if (size == 0) break;
      batch.addAll(data, data + size);
    }
    if (batch.empty()) break;
    co_await stream.write(batch.begin(), batch.size());
  }
}

size_t SendQueue::fill(kj::ArrayPtr<kj::byte> into) {
  size_t done = 0;
  while (done < into.size() && !frames.empty()) {
    auto& front = frames.front();
    size_t part = kj::min(into.size() - done, front.size() - offset);
    memcpy(into.begin() + done, front.begin() + offset, part);
    done += part;
    offset += part;
    if (offset < front.size()) break;
    frames.pop_front();
    offset = 0;
  }
  waiting -= done;
  return done;
}

void SendQueue::clear() {
  frames.clear();
  offset = waiting = 0;
}

}  // namespace talos::grpc
