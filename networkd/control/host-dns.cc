#include "networkd/control/host-dns.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/wire/store-adapter.h"
#include "networkd/plan/status-records.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {
namespace {

std::string textOf(const Endpoint& address) {
  return address.toString().cStr();
}

template <typename List, typename Texts>
void fillStrings(List list, const Texts& texts) {
  for (auto i : kj::indices(texts)) list.set(i, texts[i].c_str());
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (auto& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

bool isForPods(const Endpoint& address) {
  return !address.address.isLoopback();
}

}  // namespace

// A listener, and its loop.
struct HostDns::Open {
  Endpoint address;
  kj::Own<dns::Listener> listener;
  std::string failure;  // why the loop has ended
  kj::Promise<void> running = nullptr;
};

HostDns::HostDns(kj::UnixEventPort& port, kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                 dns::UpstreamNetwork& network, Signal& work, HostDnsInputs inputs,
                 kj::Function<void()> changed)
    : port(port),
      lowLevel(lowLevel),
      timer(timer),
      work(work),
      inputs(kj::mv(inputs)),
      changed(kj::mv(changed)),
      resolver(timer, network) {}

HostDns::~HostDns() noexcept(false) = default;

kj::Promise<void> HostDns::run() {
  CheckPace pace(timer, kFirstPause, kPause);
  for (;;) {
    auto change = work.wait();  // before the check, so that no change is missed
    auto next = co_await check();
    co_await pace.due(next, kj::mv(change));
  }
}

ResolverAddresses HostDns::answering() const {
  ResolverAddresses addresses;
  for (auto& open : listeners) {
    if (!open->failure.empty()) continue;
    auto& list = isForPods(open->address) ? addresses.pods : addresses.node;
    list.push_back(open->address.address);
  }
  return addresses;
}

void HostDns::named(ResolverAddresses addresses) {
  if (addresses == inFiles) return;
  inFiles = kj::mv(addresses);
  work.raise();
}

kj::Promise<NextCheck> HostDns::check() {
  auto found = inputs.read();
  if (found == nullptr) co_return NextCheck::kAtChange;
  auto& wanted = KJ_ASSERT_NONNULL(found);
  auto problems = wanted.problems;
  auto before = answering();
  resolver.configure(wanted.settings);
  for (auto& problem : listen(wanted.addresses)) problems.push_back(problem);
  if (answering() != before) changed();
  if (!wanted.enabled) {
    bool gone = published == nullptr && !wanted.reported;
    if (!gone && !co_await report(nullptr)) co_return NextCheck::kSoon;
    co_return NextCheck::kAtChange;
  }
  auto status = statusOf(wanted, problems);
  if (!status.problem.empty() && status.problem != logged) {
    log::error("host DNS is not complete", {{"error", status.problem.c_str()}});
  }
  logged = status.problem;
  if (!co_await report(kj::mv(status))) co_return NextCheck::kSoon;
  co_return problems.empty() ? NextCheck::kAfterPause : NextCheck::kSoon;
}

std::vector<std::string> HostDns::listen(const std::vector<Endpoint>& addresses) {
  std::vector<std::string> problems;
  std::erase_if(listeners, [&](const kj::Own<Open>& open) {
    bool wanted = std::find(addresses.begin(), addresses.end(), open->address) != addresses.end();
    return !wanted || !open->failure.empty();
  });
  for (auto& address : addresses) {
    bool there = std::any_of(listeners.begin(), listeners.end(),
                             [&](const kj::Own<Open>& open) { return open->address == address; });
    if (there) continue;
    KJ_IF_MAYBE (problem, open(address)) problems.push_back(kj::mv(*problem));
  }
  return problems;
}

// Returns the problem if the listener cannot be opened.
kj::Maybe<std::string> HostDns::open(const Endpoint& address) {
  using Client = dns::Resolver::Client;
  auto made = kj::heap<Open>();
  auto& it = *made;
  it.address = address;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 it.listener = kj::heap<dns::Listener>(
                     port, lowLevel, timer, address, isForPods(address) ? kPodHops : kLocalHops,
                     resolver, isForPods(address) ? Client::kPod : Client::kNode);
               })) {
    return "cannot listen on " + textOf(address) + ": " + messageOf(*e).cStr();
  }
  it.running = it.listener->run().eagerlyEvaluate([this, &it](kj::Exception&& e) {
    it.failure = messageOf(e).cStr();
    if (it.failure.empty()) it.failure = "closed";
    log::error("host DNS lost a socket",
               {{"address", it.address.toString()}, {"error", it.failure.c_str()}});
    changed();
    work.raise();
  });
  log::info("host DNS is listening", {{"address", address.toString()}});
  listeners.push_back(kj::mv(made));
  return nullptr;
}

HostDns::Status HostDns::statusOf(const WantedHostDns& wanted,
                                  const std::vector<std::string>& problems) const {
  Status status;
  status.version = wanted.version;
  for (auto& open : listeners) {
    if (open->failure.empty()) status.listening.push_back(textOf(open->address));
  }
  for (auto& upstream : wanted.settings.upstreams) {
    status.upstreams.push_back(textOf(upstream));
  }
  status.named = inFiles;
  status.counts = resolver.counts();
  status.problem = joined(problems);
  return status;
}

kj::Promise<bool> HostDns::report(kj::Maybe<Status> status) {
  Records records;
  KJ_IF_MAYBE (s, status) {
    KJ_IF_MAYBE (p, published) {
      if (*s == *p) co_return true;
    }
    insert<rpc::HostDnsStatusSpec>(
        records, kj::str("status"), [&](rpc::HostDnsStatusSpec::Builder out) {
          fillStrings(out.initListening(unsigned(s->listening.size())), s->listening);
          fillStrings(out.initUpstreams(unsigned(s->upstreams.size())), s->upstreams);
          out.setHits(s->counts.hits);
          out.setMisses(s->counts.misses);
          out.setFailures(s->counts.failures);
          out.setProblem(s->problem.c_str());
          if (!s->named.node.empty()) out.setNameserver(s->named.node.front().toString());
          auto pods = out.initPodNameservers(unsigned(s->named.pods.size()));
          for (auto i : kj::indices(s->named.pods)) pods.set(i, s->named.pods[i].toString());
          out.setSpecVersion(s->version);
        });
  }
  auto failure = co_await errorOf(
      [&] { return timer.timeoutAfter(kPublishDeadline, inputs.publish(kj::mv(records))); });
  KJ_IF_MAYBE (error, failure) {
    log::warn("cannot report the state of host DNS; retrying", {{"error", *error}});
    co_return false;
  }
  published = kj::mv(status);
  co_return true;
}

}  // namespace talos::networkd
