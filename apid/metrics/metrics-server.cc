#include "apid/metrics/metrics-server.h"

#include <kj/compat/http.h>
#include <kj/debug.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/within.h"
#include "common/net/http-header-names.h"
#include "common/tar/tar-writer.h"
#include "common/text/ascii.h"
#include "common/wire/roles.h"
#include "common/wire/store-adapter.h"

namespace talos::metrics {
namespace {

// Returns the credentials of `Authorization: Bearer …` (RFC 6750); the scheme may be in any case
// (RFC 9110).
kj::Maybe<kj::StringPtr> bearerIn(kj::StringPtr authorization) {
  constexpr size_t kScheme = 7;
  if (authorization.size() <= kScheme) return nullptr;
  if (lowerCase(kj::str(authorization.slice(0, kScheme))) != "bearer ") return nullptr;
  return authorization.slice(kScheme);
}

}  // namespace

bool Settings::operator==(const Settings& other) const {
  return port == other.port && plain == other.plain && pods == other.pods &&
         kj::StringPtr(token) == kj::StringPtr(other.token);
}

kj::Maybe<kj::String> refusal(const Settings& settings, const Peer& peer,
                              kj::Maybe<kj::StringPtr> authorization) {
  if (settings.plain) return nullptr;
  if (!peer.anonymous && permits(peer.organizations, kRoleReader)) return nullptr;
  KJ_IF_MAYBE (header, authorization) {
    KJ_IF_MAYBE (given, bearerIn(*header)) {
      if (isSameSecret(*given, settings.token)) return nullptr;
    }
  }
  auto needed = kj::str("a client certificate of machine.ca with the role os:reader");
  if (kj::StringPtr(settings.token).size() > 0) {
    needed = kj::str(needed,
                     ", or the header \"Authorization: Bearer\" with the token of "
                     "machine.metrics");
  }
  return kj::str("metrics need ", needed,
                 peer.anonymous ? ""_kj : "; the certificate has no such role"_kj, "\n");
}

namespace {

constexpr kj::StringPtr kMetricsId = "metrics"_kj;
constexpr ServerLimits kLimits = {.connections = 64, .connectionsPerPeer = 16};
constexpr auto kHeaders = 10 * kj::SECONDS, kBetweenRequests = 2 * kj::MINUTES,
               kWrite = 30 * kj::SECONDS;
constexpr auto kRetryListening = 5 * kj::SECONDS;

// Listens on every address of the node, including IPv6 if the kernel supports it.
kj::AutoCloseFd listenOn(uint16_t port) {
  int raw = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool six = raw >= 0;
  if (six) ::close(raw);
  return listenTcp(six ? "::"_kj : "0.0.0.0"_kj, port);
}

// Takes a few milliseconds for the series of a usual node.
kj::Array<const kj::byte> compressed(kj::ArrayPtr<const kj::byte> text) {
  kj::Vector<kj::byte> out;
  Gzip gzip;
  gzip.write(text, out);
  gzip.finish(out);
  return out.releaseAsArray();
}

kj::StringPtr statusText(unsigned status) {
  switch (status) {
    case 401:
      return "Unauthorized"_kj;
    case 404:
      return "Not Found"_kj;
    case 405:
      return "Method Not Allowed"_kj;
    default:
      return "Service Unavailable"_kj;
  }
}

}  // namespace

struct MetricsServer::Http : public HttpHeaderNames {
  kj::HttpHeaderId accept = add("Accept"), acceptEncoding = add("Accept-Encoding"),
                   contentEncoding = add("Content-Encoding"), authorization = add("Authorization"),
                   authenticate = add("WWW-Authenticate"), allow = add("Allow");
};

// One connection of a client.
class MetricsServer::HttpConnection final : public kj::HttpService,
                                            public kj::Refcounted,
                                            private kj::HttpServerErrorHandler,
                                            private kj::HttpServerCallbacks {
 public:
  HttpConnection(MetricsServer& server, const Settings& settings, Peer peer)
      : server(server),
        settings(settings),
        peer(kj::mv(peer)),
        http(server.timer, server.http->table(), *this, httpSettings()),
        idle(server.timer.now()) {}

  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> stream) {
    return http.listenHttp(kj::mv(stream));
  }
  kj::Maybe<kj::TimePoint> idleSince() const { return idle; }

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url,
                            const kj::HttpHeaders& headers, kj::AsyncInputStream&,
                            Response& response) override {
    idle = nullptr;
    closes = headers.get(kj::HttpHeaderId::CONNECTION).orDefault("") == "close";
    KJ_DEFER(idle = server.timer.now());
    auto authorization = headers.get(server.http->authorization);
    KJ_IF_MAYBE (text, refusal(settings, peer, authorization)) {
      ++server.counted.refused;
      co_return co_await sendError(response, 401, *text);
    }
    auto path = url.slice(0, url.findFirst('?').orDefault(url.size()));
    if (path != "/metrics"_kj.asArray()) {
      co_return co_await sendError(response, 404, "there is only /metrics\n");
    }
    if (method != kj::HttpMethod::GET) {
      co_return co_await sendError(response, 405, "use GET\n");
    }
    co_await scrape(formatFor(headers.get(server.http->accept).orDefault("")),
                    acceptsGzip(headers.get(server.http->acceptEncoding).orDefault("")), response);
  }

 private:
  MetricsServer& server;
  const Settings& settings;
  Peer peer;
  kj::HttpServer http;
  kj::Maybe<kj::TimePoint> idle;  // nullptr: a request is being answered
  bool closes = false;            // the client sends no further request

  kj::HttpServerSettings httpSettings() {
    kj::HttpServerSettings settings;
    settings.headerTimeout = kHeaders;
    settings.pipelineTimeout = kBetweenRequests;
    settings.canceledUploadGraceBytes = 0;
    settings.errorHandler = static_cast<kj::HttpServerErrorHandler&>(*this);
    settings.callbacks = static_cast<kj::HttpServerCallbacks&>(*this);
    return settings;
  }
  bool shouldClose() override { return closes; }
  // A client that breaks HTTP or stops reading is not logged.
  kj::Promise<void> handleApplicationError(kj::Exception, kj::Maybe<Response&>) override {
    return kj::READY_NOW;
  }

  kj::Promise<void> scrape(Format format, bool gzip, Response& response) {
    if (server.scrapes >= kMostScrapes) {
      ++server.counted.failed;
      co_return co_await sendError(
          response, 503,
          kj::str("the node answers ", kMostScrapes, " requests at a time; retry\n"));
    }
    ++server.scrapes;
    KJ_DEFER(--server.scrapes);
    MetricsText text(format);
    kj::Maybe<kj::String> failure;
    try {
      co_await within(server.timer, kGather, server.gather(text, settings.pods),
                      kj::str("gathering timed out after ", kGather / kj::SECONDS, " s"));
    } catch (...) {
      failure = messageOf(kj::getCaughtExceptionAsKj());
    }
    KJ_IF_MAYBE (error, failure) {
      ++server.counted.failed;
      co_return co_await sendError(response, 503, kj::str("cannot gather metrics: ", *error, "\n"));
    }
    auto body = text.finish();
    kj::HttpHeaders headers(server.http->table());
    headers.set(kj::HttpHeaderId::CONTENT_TYPE, contentType(format));
    kj::Array<const kj::byte> bytes = body.asBytes().attach(kj::mv(body));
    if (gzip) {
      headers.set(server.http->contentEncoding, "gzip");
      bytes = compressed(bytes);
    }
    ++server.counted.answered;
    co_await write(response.send(200, "OK", headers, bytes.size()), bytes);
  }

  kj::Promise<void> sendError(Response& response, unsigned status, kj::StringPtr text) {
    kj::HttpHeaders headers(server.http->table());
    headers.set(kj::HttpHeaderId::CONTENT_TYPE, "text/plain; charset=utf-8");
    if (status == 401) headers.set(server.http->authenticate, "Bearer");
    if (status == 405) headers.set(server.http->allow, "GET");
    auto body = kj::str(text);
    co_await write(response.send(status, statusText(status), headers, body.size()), body.asBytes());
  }

  kj::Promise<void> write(kj::Own<kj::AsyncOutputStream> stream,
                          kj::ArrayPtr<const kj::byte> body) {
    co_await within(server.timer, kWrite, stream->write(body.begin(), body.size()),
                    kj::str("the client reads nothing"));
  }
};

MetricsServer::MetricsServer(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                             StoreClient& store, TlsEndpoint& tls, Gather gather)
    : lowLevel(lowLevel),
      timer(timer),
      store(store),
      tls(tls),
      gather(kj::mv(gather)),
      http(kj::heap<Http>()),
      configs(store.watch<rpc::MetricsEndpointSpec>([this] { changed.raise(); }, kMetricsId)) {}

MetricsServer::~MetricsServer() noexcept(false) {}

kj::Maybe<Settings> MetricsServer::settings() const {
  KJ_IF_MAYBE (spec, configs.find(kMetricsId)) {
    return Settings{.port = spec->getPort(),
                    .plain = spec->getPlain(),
                    .token = pki::Pem(kj::str(spec->getToken())),
                    .pods = spec->getPods()};
  }
  return nullptr;
}

kj::Promise<void> MetricsServer::run() {
  for (;;) {
    while (!configs.synced()) co_await changed.wait();
    auto current = settings();
    co_await serve(current).exclusiveJoin(untilChanged(current));
  }
}

kj::Promise<void> MetricsServer::untilChanged(const kj::Maybe<Settings>& from) {
  for (;;) {
    auto next = changed.next();  // before the read, so that no change is missed
    auto fresh = settings();
    KJ_IF_MAYBE (f, fresh) {
      KJ_IF_MAYBE (old, from) {
        if (!(*f == *old)) co_return;
      } else {
        co_return;
      }
    } else if (from != nullptr) {
      co_return;
    }
    co_await next;
  }
}

kj::Promise<ServedStream> MetricsServer::establish(const Settings& settings,
                                                   kj::Own<kj::AsyncIoStream> stream,
                                                   kj::String address) {
  Peer peer;
  peer.anonymous = true;
  if (!settings.plain) {
    auto accepted = co_await tls.accept(kj::mv(stream), kj::mv(address));
    stream = kj::mv(accepted.stream);
    peer = kj::mv(accepted.peer);
  }
  auto connection = kj::refcounted<HttpConnection>(*this, settings, kj::mv(peer));
  auto serve = [connection = kj::addRef(*connection)](kj::Own<kj::AsyncIoStream> stream) mutable {
    return connection->serve(kj::mv(stream)).then([]() -> kj::Maybe<kj::String> {
      return nullptr;
    });
  };
  co_return ServedStream{.stream = kj::mv(stream),
                         .serve = kj::mv(serve),
                         .idleSince = IdleSince([connection = kj::mv(connection)]() {
                           return connection->idleSince();
                         })};
}

// Ends only with an error: of the listening socket, or because it cannot be opened.
kj::Promise<void> MetricsServer::listen(const Settings& settings) {
  auto listening = listenOn(settings.port);
  log::info("serving metrics", {{"port", settings.port}, {"plain", settings.plain}});
  auto serving = serveStreams(
      lowLevel, timer, kj::mv(listening),
      [this, &settings](kj::Own<kj::AsyncIoStream> stream, kj::StringPtr address) {
        return establish(settings, kj::mv(stream), kj::str(address));
      },
      kLimits);
  auto reporting = report(settings, "").then([]() -> kj::Promise<void> { return kj::NEVER_DONE; });
  co_await serving.exclusiveJoin(kj::mv(reporting));
}

kj::Promise<void> MetricsServer::serve(const kj::Maybe<Settings>& wanted) {
  if (wanted == nullptr) {
    co_await withdrawReport();
    co_await kj::Promise<void>(kj::NEVER_DONE);
  }
  auto& settings = KJ_ASSERT_NONNULL(wanted);
  for (kj::String logged;;) {
    auto problem = kj::str("the listening socket was closed");
    try {
      co_await listen(settings);
    } catch (...) {
      problem = messageOf(kj::getCaughtExceptionAsKj());
    }
    if (problem != logged) {
      log::warn("cannot serve metrics; retrying",
                {{"port", settings.port}, {"error", problem}, {"delay", kRetryListening}});
      co_await report(settings, problem);
      logged = kj::mv(problem);
    }
    co_await timer.afterDelay(kRetryListening);
  }
}

kj::Promise<void> MetricsServer::report(const Settings& settings, kj::StringPtr problem) {
  auto records = oneRecord<rpc::MetricsEndpointStatusSpec>(kMetricsId, [&](auto spec) {
    spec.setListening(problem.size() == 0);
    spec.setEndpoint(kj::str(settings.plain ? "http" : "https", "://:", settings.port, "/metrics"));
    spec.setProblem(problem);
  });
  // The metrics are served even if the status cannot be stored: machined may be away for a moment.
  auto error = co_await errorOf(
      [&] { return store.replaceAll<rpc::MetricsEndpointStatusSpec>(kj::mv(records)); });
  KJ_IF_MAYBE (text, error) {
    log::warn("cannot write the status of the metrics", {{"error", *text}});
  }
}

kj::Promise<void> MetricsServer::withdrawReport() {
  auto error = co_await errorOf(
      [&] { return store.replaceAll<rpc::MetricsEndpointStatusSpec>(StoreClient::Wanted()); });
  KJ_IF_MAYBE (text, error) {
    log::warn("cannot remove the status of the metrics", {{"error", *text}});
  }
}

}  // namespace talos::metrics
