// Serves GET /metrics as machine.metrics says: opens its port when the key appears, closes it with
// all its connections when the key is removed, and opens another port when the key changes. The
// state is the resource MetricsEndpointStatuses/metrics. A port in use is reported and retried.
//
// Clients are not trusted. A connection has deadlines for its handshake, its headers, the answer
// and the time between requests. Connections are limited, in total and for each address, and the
// oldest idle one makes room for a newer one; kMostScrapes are answered at a time, others get 503.
// Only the request line, Accept, Accept-Encoding and Authorization are evaluated, and a body is not
// read. Metrics are compressed (gzip) for clients that accept it.
//
// Nothing survives a restart of apid: Prometheus connects again.
#pragma once

#include "apid/metrics/metrics-text.h"
#include "common/base/signal.h"
#include "common/tls/tls.h"
#include "common/wire/rpc-server.h"
#include "common/wire/store-client.h"
#include "rpc/metrics-resources.capnp.h"

namespace talos::metrics {

// machine.metrics of the node, which decides who may read metrics.
struct Settings {
  uint16_t port = 0;
  bool plain = false;
  pki::Pem token;    // empty: no token
  bool pods = true;  // with series of pods

  bool operator==(const Settings& other) const;
};

// Returns why a client is refused, as text for the client; nullptr if it may read. It may read with
// `plain`, with a certificate that has a role including os:reader, or with `Authorization: Bearer`
// and the token, which is compared in constant time. Text of the client is not repeated.
kj::Maybe<kj::String> refusal(const Settings& settings, const Peer& peer,
                              kj::Maybe<kj::StringPtr> authorization);

class MetricsServer {
 public:
  static constexpr unsigned kMostScrapes = 4;
  static constexpr auto kGather = 10 * kj::SECONDS;

  // Writes all families, with those of pods if the key says so. The server cancels it after
  // kGather, or when the client has gone.
  using Gather = kj::Function<kj::Promise<void>(MetricsText& out, bool pods)>;
  // `tls` accepts clients without a certificate (TlsEndpoint::makeClientsOptional()).
  MetricsServer(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, StoreClient& store,
                TlsEndpoint& tls, Gather gather);
  ~MetricsServer() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(MetricsServer);

  // Runs until dropped.
  kj::Promise<void> run();

  // Counts of requests for /metrics since the start: answered; refused; failed or too many.
  struct Counts {
    uint64_t answered = 0, refused = 0, failed = 0;
  };
  const Counts& counts() const { return counted; }

 private:
  class HttpConnection;
  struct Http;
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::Timer& timer;
  StoreClient& store;
  TlsEndpoint& tls;
  Gather gather;
  kj::Own<Http> http;
  unsigned scrapes = 0;
  Counts counted;
  Signal changed;
  Watched<rpc::MetricsEndpointSpec> configs;

  kj::Maybe<Settings> settings() const;
  kj::Promise<void> untilChanged(const kj::Maybe<Settings>& from);
  kj::Promise<void> serve(const kj::Maybe<Settings>& settings);
  kj::Promise<void> listen(const Settings& settings);
  kj::Promise<ServedStream> establish(const Settings& settings, kj::Own<kj::AsyncIoStream> stream,
                                      kj::String address);
  kj::Promise<void> report(const Settings& settings, kj::StringPtr problem);
  kj::Promise<void> withdrawReport();
};

}  // namespace talos::metrics
