#include "machined/system/time/time-follower.h"

#include <kj/debug.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/node-messages.h"
#include "common/base/within.h"
#include "machined/system/time/time-sources.h"

namespace talos::machined {
namespace {

constexpr unsigned kMostForeign = 16;
// The wall clock cannot get so far ahead of the timer unless it was set. (The timer may be ahead:
// it has the time of the loop's last turn.)
constexpr auto kClockWasSet = 500 * kj::MILLISECONDS;

kj::Promise<ntp::Verdict> converse(QueryDependencies& deps, kj::String address) {
  auto conversation = deps.network.open(address);
  auto nonce = deps.nonce();
  auto query = ntp::makeQuery(nonce);
  auto begun = deps.timer.now();
  auto sent = deps.clock.now();
  conversation->send(query);
  for (unsigned count = 0; count < kMostForeign; ++count) {
    auto reply = co_await conversation->receive();
    auto elapsed = reply.received - sent;
    if (elapsed < 0 * kj::SECONDS || elapsed > deps.timer.now() - begun + kClockWasSet) {
      co_return ntp::Rejected{kj::str("another program set the clock during the query")};
    }
    auto verdict = co_await deps.foreign.ntp({reply.bytes, nonce, sent, elapsed});
    if (!verdict.is<ntp::Rejected>() || !verdict.get<ntp::Rejected>().forged) {
      co_return kj::mv(verdict);
    }
  }
  co_return ntp::Rejected{kj::str("too many unsolicited packets")};
}

}  // namespace

kj::Promise<ntp::Verdict> queryServer(QueryDependencies& deps, kj::String address,
                                      kj::Duration timeout) {
  auto late = deps.timer.afterDelay(timeout).then([timeout]() -> ntp::Verdict {
    return ntp::Rejected{kj::str("no answer within ", timeout / kj::MILLISECONDS, " ms")};
  });
  return converse(deps, kj::mv(address))
      .catch_([](kj::Exception&& e) -> ntp::Verdict { return ntp::Rejected{messageOf(e)}; })
      .exclusiveJoin(kj::mv(late));
}

namespace {

constexpr auto kStep = 128 * kj::MILLISECONDS;
constexpr auto kFirstTimeout = 1 * kj::SECONDS, kTimeout = 3 * kj::SECONDS;
constexpr auto kResolveTimeout = 1 * kj::SECONDS, kResolveDeadline = 20 * kj::SECONDS;
constexpr unsigned kMoreRounds = 3;
constexpr auto kBetweenRounds = 2 * kj::SECONDS;
constexpr Backoff::Pace kPollPace = {1 * kj::SECONDS, 64 * kj::SECONDS};
constexpr auto kLeastInterval = 64 * kj::SECONDS, kMostExtra = 1023 * kj::SECONDS;
constexpr auto kSteady = 10 * kj::MILLISECONDS;
constexpr unsigned kFailuresOfQuorum = 3;
// Time constants of the kernel's loop, fitting to the interval of its corrections (RFC 5905 §12).
// The first correction teaches the loop no frequency and may be quick: half of it in 11 s.
constexpr unsigned kFirstConstant = 2, kLeastConstant = 4, kMostConstant = 10;
// The distance allowed between two correct servers' claims: programs take the stamps, and a volley
// takes time.
constexpr auto kSlack = 5 * kj::MILLISECONDS;
constexpr auto kCheckTimeout = 5 * kj::SECONDS;

kj::Duration size(kj::Duration d) {
  return d < 0 * kj::SECONDS ? d * -1 : d;
}

// Returns the part of the offset that cannot come from a delay in one direction.
kj::Duration believed(kj::Duration offset, kj::Duration excess) {
  auto rest = kj::max(0 * kj::SECONDS, size(offset) - excess / 2);
  return offset < 0 * kj::SECONDS ? rest * -1 : rest;
}

unsigned log2Seconds(kj::Duration d) {
  unsigned n = 0;
  for (auto s = d / kj::SECONDS; s > 1; s /= 2) ++n;
  return n;
}

}  // namespace

// The state of following one list of servers.
class TimeFollower::Session {
 public:
  explicit Session(TimeFollower& follower)
      : follower(follower),
        deps(follower.deps),
        status(follower.status),
        sources(KJ_MAP(n, follower.names) { return kj::str(n); }) {}

  kj::Promise<void> run() {
    for (;;) {
      bool good = co_await poll();
      deps.changed();
      co_await deps.timer.afterDelay(pause(good));
    }
  }

 private:
  TimeFollower& follower;
  Dependencies& deps;
  TimeState& status;
  TimeSources sources;
  Backoff backoff{kPollPace};  // of polls without a result
  unsigned steadyPolls = 0;
  bool sure = false;  // a whole volley was evaluated
  kj::Maybe<kj::TimePoint> corrected;

  struct Choice {
    TimeSource& source;
    ntp::Sample sample;
  };

  // --- queries ---

  // A lookup that may continue over several polls; its result is applied between two of them.
  struct Resolution {
    kj::String name;
    bool done = false;
    kj::Array<kj::String> addresses;
    kj::String why;  // why no addresses were found
    kj::Promise<void> work = nullptr;
  };
  kj::Vector<kj::Own<Resolution>> resolutions;
  Signal oneDone;

  kj::Promise<void> resolve(Resolution& r) {
    auto late = kj::str(messages::kCannotResolve, "\"", r.name, "\" within ",
                        kResolveDeadline / kj::SECONDS, " s");
    auto asking = kj::evalNow([&]() { return deps.network.resolve(r.name); });
    r.addresses = co_await within(deps.timer, kResolveDeadline, kj::mv(asking), kj::mv(late))
                      .catch_([&r](kj::Exception&& e) -> kj::Array<kj::String> {
                        r.why = messageOf(e);
                        return nullptr;
                      });
    r.done = true;
    oneDone.raise();
  }

  void startResolving() {
    for (auto& name : sources.toResolve()) {
      bool begun = false;
      for (auto& r : resolutions) begun = begun || r->name == name;
      if (begun) continue;
      auto r = kj::heap<Resolution>();
      r->name = kj::mv(name);
      auto& ref = *resolutions.add(kj::mv(r));
      ref.work = kj::evalLater([this, &ref]() { return resolve(ref); }).eagerlyEvaluate(nullptr);
    }
  }

  void takeResolved() {
    kj::Vector<kj::Own<Resolution>> open;
    for (auto& r : resolutions) {
      if (!r->done) {
        open.add(kj::mv(r));
      } else if (r->addresses.size() > 0) {
        sources.resolved(r->name, r->addresses);
      } else {
        sources.unresolved(r->name, kj::mv(r->why));
      }
    }
    resolutions = kj::mv(open);
  }

  // A slow name does not delay the others.
  kj::Promise<void> resolveAll() {
    startResolving();
    auto timeout = deps.timer.now() + kResolveTimeout;
    for (;;) {
      takeResolved();
      if (resolutions.empty()) break;
      if (deps.timer.now() >= timeout && sources.size() > 0) break;
      auto wait = oneDone.next();
      if (deps.timer.now() < timeout) {
        wait = wait.exclusiveJoin(deps.timer.atTime(timeout));
      }
      co_await wait;
    }
  }

  kj::Promise<void> askOne(TimeSource& source, kj::Duration timeout) {
    for (auto left = source.addresses.size(); left > 0; --left) {
      auto begun = deps.timer.now();
      auto verdict = co_await queryServer(follower.query, kj::str(source.addresses[0]), timeout);
      bool another = sources.handleAnswer(source, kj::mv(verdict), deps.timer.now());
      if (!another || deps.timer.now() - begun >= timeout) co_return;
    }
  }

  kj::Promise<void> round() {
    auto timeout = status.synced ? kTimeout : kFirstTimeout * (1 + kj::min(backoff.failures(), 2u));
    kj::Vector<kj::Promise<void>> all;
    for (auto* source : sources.queryable(deps.timer.now())) all.add(askOne(*source, timeout));
    co_await kj::joinPromises(all.releaseAsArray());
  }

  // --- judging ---

  kj::Maybe<Choice> choose() {
    kj::Vector<TimeSource*> answering;
    kj::Vector<Claim> claims;
    kj::Vector<kj::String> offsets;
    for (auto& source : sources.all()) {
      KJ_IF_MAYBE (sample, source->best) {
        answering.add(source.get());
        claims.add(Claim{sample->offset, sample->error() + kSlack});
        offsets.add(kj::str(source->shown(), " ", ntp::showOffset(sample->offset)));
      }
    }
    bool insist = backoff.failures() < kFailuresOfQuorum;
    KJ_IF_MAYBE (agreement, agree(claims, insist ? sources.votes() / 2 + 1 : 1)) {
      auto& source = *answering[agreement->best];
      status.problem = nullptr;
      if (agreement->members.size() < claims.size()) {
        status.problem = kj::str("a time server is wrong: ", kj::strArray(offsets, ", "));
      }
      return Choice{source, KJ_ASSERT_NONNULL(source.best)};
    }
    auto problems = sources.problems();
    if (claims.empty()) {
      status.problem = kj::mv(problems);
    } else if (agree(claims) == nullptr) {
      status.problem = kj::str(messages::kTimeServersDisagree, kj::strArray(offsets, ", "));
    } else {
      status.problem = kj::str("only ", claims.size(), " of ", sources.votes(),
                               " time servers answer: ", problems);
    }
    return nullptr;
  }

  void note(const Choice& choice) {
    status.server = choice.source.shown();
    status.offset = choice.sample.offset;
    follower.followed = kj::str(choice.source.addresses[0]);
  }

  // --- the poll ---

  // Returns true if the time is known.
  kj::Promise<bool> poll() {
    sources.forgetSamples();
    auto before = kj::str(status.problem);
    co_await resolveAll();
    co_await round();
    auto first = choose();
    if (first != nullptr) {
      bool done = act(KJ_ASSERT_NONNULL(first));
      if (!done) co_await more();
    }
    if (status.problem != before && status.problem.size() > 0) deps.log(status.problem);
    co_return first != nullptr;
  }

  // Acts on one round. Returns true if no further round is needed.
  bool act(Choice& choice) {
    note(choice);
    bool far = size(choice.sample.offset) > kStep;
    if (!status.synced) {
      if (far) step(choice);
      follower.setSynced();
      return false;
    }
    if (far || !sure) return false;
    correct(choice);
    return true;
  }

  kj::Promise<void> more() {
    kj::Maybe<Choice> choice;
    for (unsigned i = 0; i < kMoreRounds; ++i) {
      co_await deps.timer.afterDelay(kBetweenRounds);
      co_await round();
      choice = choose();
      KJ_IF_MAYBE (c, choice) note(*c);
      deps.changed();
    }
    KJ_IF_MAYBE (c, choice) {
      sure = true;
      if (size(c->sample.offset) > kStep) {
        step(*c);
      } else {
        correct(*c);
      }
    }
  }

  // --- the clock ---

  void step(const Choice& choice) {
    auto by = choice.sample.offset;
    deps.clock.step(by);
    deps.log(kj::str("clock stepped by ", ntp::showOffset(by), " to the time of ",
                     choice.source.shown()));
    ++status.steps;
    steadyPolls = 0;
    corrected = nullptr;
    sources.forgetSamples();
    deps.stepped();
  }

  void correct(const Choice& choice) {
    auto& sample = choice.sample;
    auto by = believed(sample.offset, sample.delay - choice.source.leastDelay());
    auto now = deps.timer.now();
    auto constant = kFirstConstant;
    KJ_IF_MAYBE (c, corrected) {
      constant = kj::max(kLeastConstant, kj::min(kMostConstant, log2Seconds(now - *c)));
    }
    corrected = now;
    steadyPolls = size(sample.offset) > kSteady ? 0 : steadyPolls + 1;
    deps.clock.slew(by, sample.error(), constant);
  }

  kj::Duration pause(bool good) {
    auto wait = kLeastInterval;
    if (!good) {
      wait = backoff.next() + int64_t(deps.random() * 250) * kj::MILLISECONDS;
    } else {
      backoff.reset();
      auto extra = kj::min(kMostExtra, kLeastInterval * (1 << kj::min(steadyPolls, 4u)));
      wait = wait + int64_t(deps.random() * (extra / kj::MILLISECONDS)) * kj::MILLISECONDS;
    }
    // All servers may have requested a pause.
    return kj::max(wait, sources.firstQueryTime() - deps.timer.now());
  }
};

TimeFollower::TimeFollower(Dependencies w)
    : deps(kj::mv(w)),
      query{deps.timer, deps.clock, deps.network, [this]() { return deps.nonce(); }, deps.foreign} {
}
TimeFollower::~TimeFollower() noexcept(false) = default;

void TimeFollower::setServers(kj::Array<kj::String> fresh) {
  if (fresh.asPtr() == names.asPtr()) return;
  names = kj::mv(fresh);
  followed = nullptr;
  renamed.raise();
}

kj::Promise<void> TimeFollower::run() {
  KJ_DEFER(forget());
  for (;;) {
    auto otherNames = renamed.next();
    forget();
    Session session(*this);
    co_await session.run().exclusiveJoin(kj::mv(otherNames));
  }
}

void TimeFollower::forget() {
  auto steps = status.steps;
  status = TimeState();
  status.steps = steps;
  followed = nullptr;
  deps.changed();
}

void TimeFollower::setSynced() {
  status.synced = true;
  synced.raise();
  deps.changed();
}

kj::Promise<void> TimeFollower::whenSynced() {
  if (status.synced) return kj::READY_NOW;
  return synced.next();
}

kj::Promise<TimeFollower::Answer> TimeFollower::check(kj::String server) {
  if (server.size() == 0) {
    if (names.size() == 0) {
      fail(ErrorKind::kFailedPrecondition,
           "this node has no time servers: it has no config yet, or it does not set its clock "
           "(machine.time.disabled, or a container, whose clock is its host's); name a server");
    }
    server = kj::str(followed.size() > 0 ? followed : names[0]);
  }
  auto late = kj::str(messages::kCannotResolve, "\"", server, "\" within ",
                      kCheckTimeout / kj::SECONDS, " s");
  auto addresses = co_await within(deps.timer, kCheckTimeout, deps.network.resolve(server),
                                   kj::mv(late), ErrorKind::kUnavailable);
  auto verdict = co_await queryServer(query, kj::str(addresses[0]), kCheckTimeout);
  auto shown = addresses[0] == server ? kj::str(server) : kj::str(server, " (", addresses[0], ")");
  KJ_SWITCH_ONEOF(verdict) {
    KJ_CASE_ONEOF(sample, ntp::Sample) {
      auto now = deps.clock.now();
      co_return Answer{kj::mv(shown), now, now + sample.offset};
    }
    KJ_CASE_ONEOF(kiss, ntp::KissOfDeath) {
      fail(ErrorKind::kUnavailable, kj::str(shown, ": it refuses service (", kiss.code, ")"));
    }
    KJ_CASE_ONEOF(rejected, ntp::Rejected) {
      fail(ErrorKind::kUnavailable, kj::str(shown, ": ", rejected.error));
    }
  }
  KJ_UNREACHABLE;
}

}  // namespace talos::machined
