#include "talosctl/cluster/network/node-servers.h"

#include <kj/compat/http.h>
#include <kj/debug.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/net/ip.h"
#include "common/net/ntp.h"

namespace talos::cluster {
namespace {

kj::String addressOf(kj::AsyncIoStream& stream) {
  sockaddr_storage peer{};
  kj::uint length = sizeof peer;
  stream.getpeername(reinterpret_cast<sockaddr*>(&peer), &length);
  return Endpoint::of(peer).orDefault({}).address.toString();
}

// Serves one connection, and so a single peer.
class Service final : public kj::HttpService {
 public:
  Service(const kj::HttpHeaderTable& table, kj::Maybe<const ServedFile&> allowed, kj::String peer)
      : table(table), allowed(allowed), peer(kj::mv(peer)) {}

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url, const kj::HttpHeaders&,
                            kj::AsyncInputStream&, Response& response) override {
    KJ_IF_MAYBE (file, allowed) {
      if (method == kj::HttpMethod::GET && url == file->urlPath) {
        auto body = readFile(file->file);
        kj::HttpHeaders headers(table);
        headers.set(kj::HttpHeaderId::CONTENT_TYPE, "application/yaml");
        auto out = response.send(200, "OK", headers, body.size());
        log::info("machine config sent", {{"peer", peer}, {"url", url}});
        co_await out->write(body.begin(), body.size());
        co_return;
      }
    }
    log::warn("request refused", {{"peer", peer}, {"url", url}});
    co_await response.sendError(404, "Not Found", table);
  }

 private:
  const kj::HttpHeaderTable& table;
  kj::Maybe<const ServedFile&> allowed;
  kj::String peer;
};

class ConfigServer final : private kj::TaskSet::ErrorHandler {
 public:
  ConfigServer(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::AutoCloseFd listening,
               kj::HashMap<kj::String, ServedFile> files)
      : timer(timer),
        receiver(lowLevel.wrapListenSocketFd(kj::mv(listening))),
        files(kj::mv(files)),
        connections(*this) {}

  kj::Promise<void> run() {
    for (;;) {
      auto stream = co_await receiver->accept();
      connections.add(serve(kj::mv(stream)));
    }
  }

 private:
  kj::Timer& timer;
  kj::Own<kj::ConnectionReceiver> receiver;
  kj::HashMap<kj::String, ServedFile> files;
  kj::HttpHeaderTable table;
  kj::TaskSet connections;

  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> stream) {
    auto peer = addressOf(*stream);
    auto allowed = files.find(peer);
    auto service = kj::heap<Service>(table, allowed, kj::mv(peer));
    auto server = kj::heap<kj::HttpServer>(timer, table, *service);
    co_await server->listenHttp(kj::mv(stream));
  }

  void taskFailed(kj::Exception&& e) override {
    log::warn("connection of the config server failed", {{"error", e.getDescription()}});
  }
};

}  // namespace

kj::Promise<void> serveConfigs(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                               kj::AutoCloseFd listening,
                               kj::HashMap<kj::String, ServedFile> files) {
  auto server = kj::heap<ConfigServer>(lowLevel, timer, kj::mv(listening), kj::mv(files));
  auto promise = server->run();
  return promise.attach(kj::mv(server));
}

namespace {

// The host's clock is not known to be accurate, hence a stratum above 1, where the reference id is
// an address: 127.127.1.1 usually means the local clock.
constexpr ntp::ServerClock kOwnClock = {
    .stratum = 10, .referenceId = 0x7f7f0101, .rootDispersion = 10 * kj::MILLISECONDS};

// Limit of queries handled at a time, so that a flooding guest cannot occupy the loop.
constexpr unsigned kBurst = 64;
constexpr auto kBreath = 1 * kj::MILLISECONDS;

}  // namespace

kj::Promise<void> serveTime(kj::Timer& timer, kj::Own<UdpSocket> socket) {
  auto& clock = kj::systemPreciseCalendarClock();
  for (unsigned count = 1;; ++count) {
    auto query = co_await socket->receive();
    auto reply = ntp::answer(query.bytes, query.received, clock.now(), kOwnClock);
    KJ_IF_MAYBE (bytes, reply) socket->answer(query, *bytes);
    if (count % kBurst == 0) co_await timer.afterDelay(kBreath);
  }
}

}  // namespace talos::cluster
