// The node's own resolver: listens where the config wants it, and reports its state.
//
// It listens before the resolver files name it, and the files name only addresses at which it
// listens: an address that another program has taken is a problem, and the node and its pods use
// the upstreams meanwhile. It tries again after a pause that grows to kPause. Each listener is
// independent: one that fails does not stop the others.
//
// Nothing is kept over a crash: the next networkd begins with an empty cache, and until it listens
// programs wait for their resolver's timeout. The status exists as long as the resolver is wanted.
// Its counts are written at most once in kPause.
#pragma once

#include <kj/function.h>

#include "common/base/signal.h"
#include "networkd/control/network-pace.h"
#include "networkd/control/network-reconciler.h"
#include "networkd/dns/dns-listener.h"

namespace talos::networkd {

// The resolver as the store wants it.
struct WantedHostDns {
  bool enabled = false;
  uint64_t version = 0;  // of the spec
  std::vector<Endpoint> addresses;
  dns::ResolverSettings settings;
  std::vector<std::string> problems;  // of the specs
  bool reported = false;              // A status exists.
};

struct HostDnsInputs {
  // Returns nullptr until everything has arrived.
  kj::Function<kj::Maybe<WantedHostDns>()> read;
  kj::Function<kj::Promise<void>(Records)> publish;
};

class HostDns final : public LocalResolver {
 public:
  static constexpr kj::Duration kFirstPause = 1 * kj::SECONDS, kPause = 60 * kj::SECONDS;
  // IP lifetime of answers, from an address of loopback and from one for pods.
  static constexpr unsigned kLocalHops = 1, kPodHops = 2;

  // The caller raises `work` when the inputs have changed. `changed` is called when answering() has
  // another result.
  HostDns(kj::UnixEventPort& port, kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
          dns::UpstreamNetwork& network, Signal& work, HostDnsInputs inputs,
          kj::Function<void()> changed);
  ~HostDns() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(HostDns);

  // Runs until dropped.
  kj::Promise<void> run();

  ResolverAddresses answering() const override;
  void named(ResolverAddresses addresses) override;

 private:
  struct Open;
  struct Status {
    uint64_t version = 0;
    std::vector<std::string> listening, upstreams;
    ResolverAddresses named;
    dns::ResolverCounts counts;
    std::string problem;
    bool operator==(const Status&) const = default;
  };

  kj::UnixEventPort& port;
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::Timer& timer;
  Signal& work;
  HostDnsInputs inputs;
  kj::Function<void()> changed;
  dns::Resolver resolver;
  std::vector<kj::Own<Open>> listeners;
  ResolverAddresses inFiles;
  kj::Maybe<Status> published;
  std::string logged;  // last problem, logged once

  kj::Promise<NextCheck> check();
  // Opens and closes listeners; returns the problems.
  std::vector<std::string> listen(const std::vector<Endpoint>& addresses);
  kj::Maybe<std::string> open(const Endpoint& address);
  Status statusOf(const WantedHostDns& wanted, const std::vector<std::string>& problems) const;
  // Returns false if the report has to be repeated.
  kj::Promise<bool> report(kj::Maybe<Status> status);
};

}  // namespace talos::networkd
