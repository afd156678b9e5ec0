// The dashboard in a browser: an HTTP server on 127.0.0.1 (RFC 9112) with one page. The page gets
// each picture as an SVG by server-sent events (HTML, section 9.2), and sends the keys that the
// user presses as the bytes that a terminal would send. All pages that are open show the same
// picture and share the keys.
//
// Access: the path of every request begins with 128 random bits, which are in the address that the
// user gets and nowhere else, so that other users of the host and other pages of the browser cannot
// guess it. A request whose Host is not this address is refused, so that a page of
// another site cannot read the answers by a name that it points at 127.0.0.1. The page may load
// nothing from elsewhere (Content Security Policy).
#pragma once

#include <kj/compat/http.h>

#include "common/screen/canvas.h"

namespace talos::talosctl::dashboard {

// Shows pictures of the dashboard, and has a keyboard.
class Screen {
 public:
  virtual ~Screen() noexcept(false) = default;
  virtual size_t rows() const = 0;
  virtual size_t columns() const = 0;
  virtual void show(Canvas canvas) = 0;
  // Returns the bytes that the keyboard sends, at least one. Rejects when the screen is gone.
  virtual kj::Promise<kj::Array<char>> typed() = 0;
};

class WebScreen final : public Screen, private kj::HttpService, private kj::TaskSet::ErrorHandler {
 public:
  // Listens at once; port 0: a free port. Throws if the port is taken.
  WebScreen(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, uint16_t port);
  KJ_DISALLOW_COPY_AND_MOVE(WebScreen);

  // Returns "http://127.0.0.1:PORT/SECRET/".
  kj::String address() const;

  // The size of the window of the page that was opened last; 36 rows of 120 columns before that.
  size_t rows() const override { return rowCount; }
  size_t columns() const override { return columnCount; }
  // A page that does not read gets the newest picture when it reads again, none between.
  void show(Canvas canvas) override;
  kj::Promise<kj::Array<char>> typed() override;

 private:
  kj::Timer& timer;
  kj::HttpHeaderTable::Builder tableBuilder;
  kj::HttpHeaderId cacheControl, contentSecurityPolicy, contentTypeOptions, referrerPolicy;
  kj::Own<kj::HttpHeaderTable> table;
  kj::HttpServer server;
  kj::Own<kj::ConnectionReceiver> receiver;
  uint16_t bound;  // port
  kj::String secret;
  size_t rowCount = 36, columnCount = 120;

  kj::String picture;        // the newest one
  uint64_t pictures = 0;     // that were shown
  kj::Vector<char> pressed;  // keys that nothing has taken yet
  kj::Vector<kj::Own<kj::PromiseFulfiller<void>>> watchers;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> reader;
  size_t connected = 0;
  kj::TaskSet connections;
  kj::ForkedPromise<void> accepting;

  kj::Promise<void> accept();
  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> stream);
  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url,
                            const kj::HttpHeaders& headers, kj::AsyncInputStream& body,
                            Response& response) override;
  kj::Promise<void> sendPage(Response& response);
  kj::Promise<void> sendPictures(Response& response, kj::StringPtr query);
  kj::Promise<void> takeKeys(kj::AsyncInputStream& body, Response& response);
  kj::HttpHeaders headersOf(kj::StringPtr contentType) const;
  void taskFailed(kj::Exception&&) override {}  // a browser has closed its connection
};

}  // namespace talos::talosctl::dashboard
