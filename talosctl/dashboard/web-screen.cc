#include "talosctl/dashboard/web-screen.h"

#include <kj/debug.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/tls/pki.h"
#include "common/wire/rpc-server.h"

namespace talos::talosctl::dashboard {

namespace {

constexpr auto kLoopback = "127.0.0.1"_kj;
constexpr size_t kSecretBytes = 16;
constexpr size_t kMostConnections = 16;
constexpr uint64_t kMostKeys = 64;     // bytes of one request
constexpr size_t kMostPressed = 1024;  // bytes that wait
constexpr auto kSignOfLife = 15 * kj::SECONDS;
struct Limits {
  size_t least, most;
};
constexpr Limits kRows = {10, 200}, kColumns = {40, 400};

// Between two parts of the page is the random word that lets its script run.
constexpr auto kPageBegin = R"(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>talosctl dashboard</title>
<style>
html, body { margin: 0; height: 100%; background: #1e1e1e; color: #e5c07b; font-family: sans-serif }
#screen svg { display: block; width: 100vw; height: 100vh }
#lost { position: fixed; bottom: 0; right: 1em }
</style>
<main id="screen"></main>
<p id="lost" hidden>talosctl does not answer: it has ended, or was stopped</p>
<script nonce=")"_kj;
constexpr auto kPageEnd = R"(">
const screen = document.getElementById('screen'), lost = document.getElementById('lost');
const keys = {
  ArrowUp: '\x1b[A', ArrowDown: '\x1b[B', ArrowRight: '\x1b[C', ArrowLeft: '\x1b[D',
  PageUp: '\x1b[5~', PageDown: '\x1b[6~', Home: '\x1b[H', End: '\x1b[F',
  Tab: '\t', Enter: '\r', Backspace: '\x7f', Escape: '\x1b',
};
let pictures, pause, sending = Promise.resolve();
function open() {
  if (pictures) pictures.close();
  const rows = Math.floor(innerHeight / 17) - 1, columns = Math.floor(innerWidth / 8) - 2;
  pictures = new EventSource(`pictures?rows=${rows}&columns=${columns}`);
  pictures.onmessage = event => { screen.innerHTML = event.data; lost.hidden = true; };
  pictures.onerror = () => { lost.hidden = false; };
}
addEventListener('resize', () => { clearTimeout(pause); pause = setTimeout(open, 200); });
addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const shiftTab = event.key === 'Tab' && event.shiftKey;
  const bytes = shiftTab ? '\x1b[Z' : keys[event.key] ?? (event.key.length === 1 ? event.key : '');
  if (!bytes) return;
  event.preventDefault();
  sending = sending.then(() => fetch('keys', { method: 'POST', body: bytes })).catch(() => {});
});
open();
</script>
)"_kj;

kj::String randomWord() {
  return kj::encodeHex(pki::randomBytes(kSecretBytes));
}

// Parses "name=NUMBER" in a query, and limits the number. Returns `fallback` without such a part.
size_t numberIn(kj::StringPtr query, kj::StringPtr name, Limits limits, size_t fallback) {
  for (kj::ArrayPtr<const char> rest = query; rest.size() > 0;) {
    size_t end = 0;
    while (end < rest.size() && rest[end] != '&') ++end;
    auto part = kj::str(rest.slice(0, end));
    rest = rest.slice(kj::min(end + 1, rest.size()), rest.size());
    if (!part.startsWith(name) || part.size() <= name.size() || part[name.size()] != '=') continue;
    KJ_IF_MAYBE (number, part.slice(name.size() + 1).tryParseAs<uint32_t>()) {
      return kj::max(limits.least, kj::min(limits.most, size_t(*number)));
    }
  }
  return fallback;
}

// Returns an event of the stream; its reader joins the lines again.
kj::String eventOf(kj::StringPtr text) {
  kj::Vector<char> out;
  out.addAll("data: "_kj);
  for (char c : text) {
    out.add(c);
    if (c == '\n') out.addAll("data: "_kj);
  }
  out.addAll("\n\n"_kj);
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

}  // namespace

WebScreen::WebScreen(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, uint16_t port)
    : timer(timer),
      cacheControl(tableBuilder.add("Cache-Control")),
      contentSecurityPolicy(tableBuilder.add("Content-Security-Policy")),
      contentTypeOptions(tableBuilder.add("X-Content-Type-Options")),
      referrerPolicy(tableBuilder.add("Referrer-Policy")),
      table(tableBuilder.build()),
      server(timer, *table, *this),
      receiver(lowLevel.wrapListenSocketFd(listenTcp(kLoopback, port))),
      bound(uint16_t(receiver->getPort())),
      secret(randomWord()),
      connections(*this),
      accepting(accept().fork()) {}

kj::String WebScreen::address() const {
  return kj::str("http://", kLoopback, ":", bound, "/", secret, "/");
}

void WebScreen::show(Canvas canvas) {
  auto next = canvas.svg("talosctl dashboard");
  if (next == picture) return;
  picture = kj::mv(next);
  ++pictures;
  for (auto& one : watchers) one->fulfill();
  watchers.clear();
}

kj::Promise<kj::Array<char>> WebScreen::typed() {
  while (pressed.size() == 0) {
    auto paf = kj::newPromiseAndFulfiller<void>();
    reader = kj::mv(paf.fulfiller);
    co_await paf.promise.exclusiveJoin(accepting.addBranch());
  }
  auto taken = kj::heapArray<char>(pressed.asPtr());
  pressed.clear();
  co_return taken;
}

kj::Promise<void> WebScreen::accept() {
  for (;;) {
    auto stream = co_await receiver->accept();
    // More than a browser needs: the connection is closed.
    if (connected < kMostConnections) connections.add(serve(kj::mv(stream)));
  }
}

kj::Promise<void> WebScreen::serve(kj::Own<kj::AsyncIoStream> stream) {
  ++connected;
  KJ_DEFER(--connected);
  co_await server.listenHttp(kj::mv(stream));
}

kj::HttpHeaders WebScreen::headersOf(kj::StringPtr contentType) const {
  kj::HttpHeaders headers(*table);
  headers.set(kj::HttpHeaderId::CONTENT_TYPE, contentType);
  headers.set(cacheControl, "no-store");
  headers.set(contentTypeOptions, "nosniff");
  headers.set(referrerPolicy, "no-referrer");
  return headers;
}

kj::Promise<void> WebScreen::request(kj::HttpMethod method, kj::StringPtr url,
                                     const kj::HttpHeaders& headers, kj::AsyncInputStream& body,
                                     Response& response) {
  auto host = headers.get(kj::HttpHeaderId::HOST).orDefault(""_kj);
  if (host != kj::str(kLoopback, ":", bound) && host != kj::str("localhost:", bound)) {
    co_return co_await response.sendError(421, "Misdirected Request", *table);
  }
  auto folder = kj::str("/", secret, "/");
  if (!url.startsWith(folder)) co_return co_await response.sendError(404, "Not Found", *table);
  auto rest = url.slice(folder.size());
  auto mark = rest.findFirst('?').orDefault(rest.size());
  auto name = kj::str(rest.slice(0, mark));
  if (name == "keys") {
    if (method == kj::HttpMethod::POST) co_return co_await takeKeys(body, response);
  } else if (name == "pictures" || name == "") {
    if (method == kj::HttpMethod::GET) {
      if (name == "") co_return co_await sendPage(response);
      co_return co_await sendPictures(response, mark < rest.size() ? rest.slice(mark + 1) : ""_kj);
    }
  } else {
    co_return co_await response.sendError(404, "Not Found", *table);
  }
  co_await response.sendError(405, "Method Not Allowed", *table);
}

kj::Promise<void> WebScreen::sendPage(Response& response) {
  auto nonce = randomWord();
  auto page = kj::str(kPageBegin, nonce, kPageEnd);
  auto headers = headersOf("text/html; charset=utf-8");
  headers.set(contentSecurityPolicy,
              kj::str("default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "
                      "script-src 'nonce-",
                      nonce, "'; frame-ancestors 'none'; base-uri 'none'"));
  auto out = response.send(200, "OK", headers, page.size());
  co_await out->write(page.begin(), page.size());
}

kj::Promise<void> WebScreen::sendPictures(Response& response, kj::StringPtr query) {
  rowCount = numberIn(query, "rows", kRows, rowCount);
  columnCount = numberIn(query, "columns", kColumns, columnCount);
  auto out = response.send(200, "OK", headersOf("text/event-stream"));
  for (uint64_t sent = 0;;) {
    // Without a new picture a comment shows whether the browser is still there.
    auto piece = sent < pictures ? eventOf(picture) : kj::str(":\n\n");
    sent = pictures;
    co_await out->write(piece.begin(), piece.size());
    if (sent < pictures) continue;
    auto paf = kj::newPromiseAndFulfiller<void>();
    watchers.add(kj::mv(paf.fulfiller));
    co_await paf.promise.exclusiveJoin(timer.afterDelay(kSignOfLife));
  }
}

kj::Promise<void> WebScreen::takeKeys(kj::AsyncInputStream& body, Response& response) {
  auto length = body.tryGetLength().orDefault(kMostKeys + 1);
  if (length > kMostKeys || pressed.size() + length > kMostPressed) {
    co_return co_await response.sendError(413, "Content Too Large", *table);
  }
  auto keys = co_await body.readAllBytes(kMostKeys + 1);
  pressed.addAll(keys.asChars());
  KJ_IF_MAYBE (waiting, reader) {
    if (keys.size() > 0) (*waiting)->fulfill();
  }
  response.send(204, "No Content", headersOf("text/plain"), uint64_t(0));
}

}  // namespace talos::talosctl::dashboard
