#include "networkd/control/network-reconciler.h"

#include <errno.h>
#include <kj/debug.h>
#include <time.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/wire/store-adapter.h"
#include "networkd/control/network-pace.h"
#include "networkd/plan/network-plan.h"
#include "networkd/plan/plan-links.h"

namespace talos::networkd {

namespace {

constexpr unsigned kMaxRounds = 8;
constexpr Backoff::Pace kPassPace = {500 * kj::MILLISECONDS, 60 * kj::SECONDS, 1.5, 0.5, 1.5};
// Most log lines for one batch of changes: ten thousand routes would push out everything else.
constexpr size_t kMostLogged = 200;
constexpr size_t kMostLines = 200;  // problems and steps, in resources

// The change happened by itself: the kernel added the address meanwhile, or removed the route with
// its link.
bool harmless(const netlink::Change& change, int code) {
  bool adds = change.is<netlink::AddAddress>() || change.is<netlink::AddRoute>() ||
              change.is<netlink::AddRule>();
  bool removes = change.is<netlink::DeleteAddress>() || change.is<netlink::DeleteRoute>() ||
                 change.is<netlink::DeleteRule>();
  bool absent = code == ESRCH || code == EADDRNOTAVAIL || code == ENODEV || code == ENOENT;
  return (adds && code == EEXIST) || (removes && absent);
}

// True for a silent peer with a new endpoint, which gets its configured endpoint again: no other
// program changed anything.
bool callsPeers(const netlink::Change& change) {
  KJ_IF_MAYBE (set, change.tryGet<netlink::SetWireguard>()) {
    if (set->privateKey != nullptr || set->listenPort || set->firewallMark) return false;
    for (auto& peer : set->peers) {
      if (!peer.endpoint || peer.remove || peer.keepalive || peer.replaceAllowed) return false;
    }
    return true;
  }
  return false;
}

// True for a card, or a bond of networkd: a pod, which could send routes to the node, is not
// reached through it.
bool isOfTheNode(const netlink::Link& link) {
  bool bond = link.kind == "bond" && link.group == kMark;
  return bond || (link.kind.size() == 0 && !link.loopback());
}

// A resource has a size limit, and ten thousand lines help no reader.
void shorten(kj::Vector<kj::String>& lines) {
  if (lines.size() <= kMostLines) return;
  auto rest = lines.size() - kMostLines;
  lines.truncate(kMostLines);
  lines.add(kj::str("and ", rest, " more"));
}

kj::Vector<Ip> copy(const kj::Vector<Ip>& list) {
  kj::Vector<Ip> result;
  result.addAll(list);
  return result;
}

// Equal bytes mean equal specs.
kj::Array<kj::byte> identity(const Wanted& wanted) {
  kj::Vector<kj::byte> bytes;
  auto number = [&](uint64_t value) { bytes.addAll(kj::arrayPtr(&value, 1).asBytes()); };
  auto text = [&](kj::StringPtr value) {
    number(value.size());
    bytes.addAll(value.asBytes());
  };
  auto prefix = [&](const Prefix& value) {
    number(value.length);
    number(value.address.bits());
    bytes.addAll(value.address.bytes());
  };
  for (auto count :
       {wanted.links.size(), wanted.addresses.size(), wanted.routes.size(), wanted.rules.size()}) {
    number(count);
  }
  for (auto& link : wanted.links) {
    text(link.name);
    number(link.version);
    KJ_IF_MAYBE (secret, link.wireguard.privateKey) {
      auto key = secret->publicKey();
      bytes.addAll(kj::arrayPtr(key.begin(), key.size()));
    }
    number(link.wireguard.peers.size());
    for (auto& peer : link.wireguard.peers) {
      text(peer.resolved ? peer.resolved->toString() : kj::String());
    }
  }
  for (auto& address : wanted.addresses) {
    text(address.link);
    prefix(address.prefix);
    number(address.version);
  }
  for (auto& route : wanted.routes) {
    text(route.link);
    prefix(route.destination);
    number(route.metric);
    number(route.table);
    number(route.version);
  }
  for (auto& rule : wanted.rules) {
    text(netlink::nameOfRule(rule.rule));
    number(rule.version);
  }
  return bytes.releaseAsArray();
}

}  // namespace

struct NetworkReconciler::Outcome {
  Observed observed;
  uint64_t applied = 0;
  kj::Vector<kj::String> problems;
  bool done = false;  // nothing left to do
  kj::Vector<kj::String> left;
};

NetworkReconciler::NetworkReconciler(netlink::Kernel& kernel, netlink::Monitor& monitor,
                                     NetworkStore& store, Host& host, kj::Timer& timer,
                                     Signal& work, kj::Function<double()> random,
                                     kj::Maybe<Endpoints&> endpoints,
                                     kj::Maybe<LocalResolver&> localResolver)
    : kernel(kernel),
      monitor(monitor),
      store(store),
      host(host),
      timer(timer),
      work(work),
      random(kj::mv(random)),
      endpoints(endpoints),
      localResolver(localResolver),
      firstPass(nullptr),
      firstMtus(parseFirstMtus(host.readFirstMtus())),
      tunnelPorts(parseTunnelPorts(host.readTunnelPorts())) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  firstPassDone = kj::mv(paf.fulfiller);
  firstPass = paf.promise.fork();
}

NetworkReconciler::~NetworkReconciler() noexcept(false) = default;

// --- loops
kj::Promise<void> NetworkReconciler::run() {
  return applyLoop()
      .exclusiveJoin(publishLoop())
      .exclusiveJoin(kernelLoop())
      .exclusiveJoin(hostLoop());
}

kj::Promise<void> NetworkReconciler::applyLoop() {
  Backoff backoff(kPassPace);
  for (;;) {
    auto delay = backoff.next(random());
    bool good = pass(delay);
    auto next = work.wait();
    if (good) {
      backoff.reset();
    } else {
      next = next.exclusiveJoin(timer.afterDelay(delay));
    }
    for (auto due : {carriers.next(timer.now()), silence}) {
      KJ_IF_MAYBE (moment, due) next = next.exclusiveJoin(timer.atTime(*moment));
    }
    co_await next;
  }
}

kj::Promise<void> NetworkReconciler::publishLoop() {
  Backoff backoff(kPassPace);
  auto next = report.wait();
  for (;;) {
    co_await next;
    next = report.wait();
    kj::Maybe<Report> current = kj::mv(latest);
    latest = nullptr;
    KJ_IF_MAYBE (there, current) {
      auto failure = co_await errorOf(
          [&] { return timer.timeoutAfter(kPublishDeadline, store.publish(kj::mv(*there))); });
      KJ_IF_MAYBE (error, failure) {
        log::warn("cannot report the state of the network; retrying", {{"error", *error}});
        // The kernel may differ after the pause: another look makes a new report.
        next = next.exclusiveJoin(
            timer.afterDelay(backoff.next(random())).then([this] { work.raise(); }));
      } else {
        backoff.reset();
      }
    }
  }
}

kj::Promise<void> NetworkReconciler::kernelLoop() {
  for (;;) {
    handle(co_await monitor.next());
    work.raise();
    co_await timer.afterDelay(kKernelPause);
  }
}

void NetworkReconciler::handle(netlink::Notice notice) {
  if (!notice.overrun) return;
  ++overruns;
  log::info("missed changes of the kernel; reading everything again");
}

kj::Promise<void> NetworkReconciler::hostLoop() {
  for (;;) {
    co_await host.hostnameChanged();
    work.raise();
  }
}

// --- one pass
Observed NetworkReconciler::observe() {
  return observe(routeTables());
}

Observed NetworkReconciler::observe(const std::set<uint32_t>& watched) {
  auto observed = networkd::observe(kernel, host.ipv6(), time(nullptr), watched);
  observed.firstMtus = firstMtus;
  observed.tunnelPorts = tunnelPorts;
  for (auto& link : observed.links) {
    auto hardware = host.hardware(link);
    if (hardware.driver.size() > 0) observed.hardware.insert(link.index, kj::mv(hardware));
  }
  return observed;
}

// The first time, an earlier networkd may have left routes in tables that no spec names any more.
const std::set<uint32_t>& NetworkReconciler::routeTables() {
  KJ_IF_MAYBE (known, tables) return *known;
  return tables.emplace(tablesOf(kernel.allRoutes()));
}

Preview NetworkReconciler::preview(capnp::List<rpc::Resource>::Reader specs) {
  auto wanted = wantedOf(specs);
  KJ_IF_MAYBE (names, endpoints) names->fillKnown(wanted);
  auto watched = routeTables();
  addTables(watched, wanted);
  return networkd::preview(wanted, observe(watched));
}

bool NetworkReconciler::pass(kj::Duration retry) {
  KJ_IF_MAYBE (intent, store.intent()) {
    repairs.goOnFrom(kj::mv(intent->repairs));
    KJ_IF_MAYBE (names, endpoints) names->fill(intent->wanted, intent->resolvers);
    kj::Vector<kj::String> problems = kj::mv(intent->wanted.problems);
    bool good = writeResolvers(*intent, problems);
    kj::Maybe<Outcome> outcome;
    auto failure = kj::runCatchingExceptions([&] { outcome = converge(intent->wanted); });
    KJ_IF_MAYBE (e, failure) {
      log::error("cannot read the network of the kernel", {{"error", messageOf(*e)}});
      return false;
    }
    auto& reached = KJ_ASSERT_NONNULL(outcome);
    KJ_IF_MAYBE (names, endpoints) {
      if (reached.done) names->reached(intent->wanted);
    }
    for (auto& problem : reached.problems) problems.add(kj::mv(problem));
    good = good && reached.done;
    Undone undone{kj::mv(reached.left), kj::mv(problems)};
    if (!good) undone.retry = retry;
    silence = untilSilence(intent->wanted, reached.observed).map([&](int64_t seconds) {
      return timer.now() + seconds * kj::SECONDS;
    });
    undone.waiting = carriers.lost(intent->wanted, reached.observed, timer.now());
    makeReport(*intent, reached, kj::mv(undone));
    firstPassDone->fulfill();
    return good;
  }
  return true;  // `work` wakes the loop when specs arrive
}

void NetworkReconciler::makeReport(Intent& intent, const Outcome& reached, Undone undone) {
  kj::Vector<kj::String> problems;
  for (auto& problem : undone.problems) problems.add(kj::str(problem));
  for (auto& loss : undone.waiting) problems.add(kj::str(loss.what));
  for (auto list : {&undone.steps, &undone.problems, &problems}) shorten(*list);
  logProblems(problems);

  auto addresses = nodeAddresses(reached.observed, recall(kj::mv(intent.previous)));
  remembered = {copy(addresses.chosen), kj::Vector<Ip>(), copy(addresses.known)};
  Health health{
      .address = addresses.current.size() > 0,
      .connectivity = intent.probes.orDefault(hasDefaultRoute(reached.observed)),
      .hostname = intent.hostname.size() > 0 && host.hostname() == intent.hostname,
      .applied = reached.applied,
      .problems = kj::mv(problems),
      .overruns = overruns,
      .repairs = repairs.copy(),
  };
  latest = Report{.links = linkStatuses(reached.observed),
                  .addresses = addressStatuses(reached.observed),
                  .routes = routeStatuses(reached.observed),
                  .nodeAddresses = records(addresses),
                  .network = records(health),
                  .plans = records(undone)};
  report.raise();
}

// Joins the earlier addresses: the store's, and those that were written but not read back yet.
NodeAddresses NetworkReconciler::recall(NodeAddresses stored) const {
  if (stored.chosen.size() == 0) stored.chosen = copy(remembered.chosen);
  stored.known.addAll(remembered.known);  // nodeAddresses() drops duplicates
  return stored;
}

NetworkReconciler::Outcome NetworkReconciler::converge(const Wanted& wanted) {
  Outcome outcome;
  // Finds a change by another program: everything was as wanted and now is not.
  auto desired = identity(wanted);
  bool repairing = held.size() > 0 && held == desired;
  if (!repairing)
    held = nullptr;  // `held` stays if the kernel cannot be read: nothing new is
                     // known.
  bool progress = true;
  kj::Vector<kj::String> failures;
  (void)routeTables();
  addTables(KJ_ASSERT_NONNULL(tables), wanted);
  for (unsigned round = 0;; ++round) {
    // The read that follows covers all notices until now.
    handle(monitor.take());
    outcome.observed = observe();
    if (namer.rename(outcome.observed)) outcome.observed = observe();
    carriers.see(outcome.observed, timer.now());
    if (remember(tunnelPorts, wanted, outcome.observed)) keepTunnelPorts();
    auto todo = plan(wanted, outcome.observed);
    outcome.applied = todo.applied;
    outcome.problems = kj::mv(todo.problems);
    outcome.done = todo.steps.size() == 0;
    bool tooOften = round == kMaxRounds && !outcome.done && progress;
    if (tooOften) {
      failures.add(kj::str("another program keeps changing the network"));
    }
    if (outcome.done || !progress || tooOften) {
      for (auto& step : todo.steps) outcome.left.add(describe(step.change, outcome.observed));
      break;
    }
    if (remember(firstMtus, outcome.observed, todo.steps)) keepFirstMtus();
    listenToRouters(outcome.observed, todo.steps);
    // Notices of our own changes are not needed: everything is read again.
    monitor.listen(false);
    KJ_DEFER(monitor.listen(true));
    failures = apply(outcome.observed, kj::mv(todo.steps), progress, repairing);
  }
  if (forget(firstMtus, wanted, outcome.observed)) keepFirstMtus();
  if (forget(tunnelPorts, wanted, outcome.observed)) keepTunnelPorts();
  held = outcome.done && outcome.problems.size() == 0 ? kj::mv(desired) : nullptr;
  if (!outcome.done) {
    for (auto& failure : failures) outcome.problems.add(kj::mv(failure));
  }
  return outcome;
}

kj::Vector<kj::String> NetworkReconciler::apply(const Observed& observed, kj::Vector<Step> steps,
                                                bool& progress, bool repairing) {
  auto names = KJ_MAP(step, steps) {
    return kj::mv(step.what);
  };
  auto changes = KJ_MAP(step, steps) {
    return kj::mv(step.change);
  };
  auto answers = kernel.apply(changes);
  kj::Vector<kj::String> failures;
  progress = false;
  size_t done = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    KJ_IF_MAYBE (failure, answers[i]) {
      if (!harmless(changes[i], failure->code)) {
        failures.add(kj::str(names[i], ": ", failure->reason));
      }
    } else {
      progress = true;
      bool logged = ++done <= kMostLogged;
      bool repaired = repairing && !callsPeers(changes[i]);
      if (!repaired && !logged) continue;
      auto what = describe(changes[i], observed);
      if (!repaired) {
        log::info("network changed", {{"change", what}, {"for", names[i]}});
        continue;
      }
      if (logged) {
        log::warn("another program changed the network; restoring",
                  {{"change", what}, {"for", names[i]}});
      }
      repairs.add(linkOf(changes[i], observed), kj::mv(what));
    }
  }
  if (done > kMostLogged)
    log::info("more network changes, not logged one by one", {{"count", done - kMostLogged}});
  return failures;
}

// Runs before a link goes up: the kernel solicits routers then, and not again.
void NetworkReconciler::listenToRouters(const Observed& observed, kj::ArrayPtr<const Step> steps) {
  for (auto& step : steps) {
    KJ_IF_MAYBE (set, step.change.tryGet<netlink::SetLink>()) {
      if (!set->up.orDefault(false) || listening.contains(set->index)) continue;
      KJ_IF_MAYBE (link, observed.link(set->index)) {
        if (!isOfTheNode(*link)) continue;
        listening.insert(link->index);
        host.acceptRouterAdvertisements(link->name);
      }
    }
  }
}

// Without the file, networkd forgets the MTUs when it restarts, which is acceptable.
void NetworkReconciler::keepFirstMtus() {
  auto failure = kj::runCatchingExceptions([&] { host.writeFirstMtus(format(firstMtus)); });
  KJ_IF_MAYBE (e, failure) {
    log::warn("cannot write the file of original MTUs", {{"error", messageOf(*e)}});
  }
}

// Without the file, a port that a config removes while networkd does not run stays.
void NetworkReconciler::keepTunnelPorts() {
  auto failure = kj::runCatchingExceptions([&] { host.writeTunnelPorts(format(tunnelPorts)); });
  KJ_IF_MAYBE (e, failure) {
    log::warn("cannot write the file of WireGuard's ports", {{"error", messageOf(*e)}});
  }
}

bool NetworkReconciler::writeResolvers(const Intent& intent, kj::Vector<kj::String>& problems) {
  ResolverAddresses own;
  KJ_IF_MAYBE (resolver, localResolver) own = resolver->answering();
  auto file = [&](const std::vector<Ip>& addresses) {
    if (addresses.empty()) return resolverFile(intent.resolvers, intent.search);
    kj::Vector<kj::String> servers;
    for (auto& address : addresses) servers.add(address.toString());
    return resolverFile(servers, intent.search);
  };
  auto failure = kj::runCatchingExceptions([&] {
    host.writeResolverFile(file(own.node));
    host.writePodResolverFile(file(own.pods));
  });
  KJ_IF_MAYBE (e, failure) {
    problems.add(kj::str("resolver file: ", messageOf(*e)));
    return false;
  }
  KJ_IF_MAYBE (resolver, localResolver) resolver->named(kj::mv(own));
  return true;
}

void NetworkReconciler::logProblems(const kj::Vector<kj::String>& problems) {
  kj::HashSet<kj::StringPtr> before, now;
  for (auto& problem : lastProblems) before.upsert(problem, [](auto&, auto&&) {});
  for (auto& problem : problems) {
    bool known = before.contains(problem) || now.contains(problem);
    now.upsert(problem, [](auto&, auto&&) {});
    if (!known) log::warn("problem", {{"error", problem}});
  }
  for (auto& problem : lastProblems) {
    if (!now.contains(problem)) log::info("problem solved", {{"error", problem}});
  }
  kj::Vector<kj::String> copies;
  for (auto& problem : problems) copies.add(kj::str(problem));
  lastProblems = kj::mv(copies);
}

}  // namespace talos::networkd
