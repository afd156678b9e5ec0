#include "machined/system/time/time-sources.h"

#include <utility>

#include "common/text/texts.h"

namespace talos::machined {
namespace {

constexpr size_t kMostOfOneName = 4;
constexpr unsigned kMissesToResolve = 4;
constexpr size_t kDelaysKept = 8;
constexpr auto kFirstPause = 128 * kj::SECONDS;
constexpr unsigned kMostDoublings = 3;

void rotate(kj::Vector<kj::String>& list) {
  for (size_t i = 0; i + 1 < list.size(); ++i) std::swap(list[i], list[i + 1]);
}

kj::Maybe<ntp::Sample> better(kj::Maybe<ntp::Sample>& old, const ntp::Sample& fresh) {
  KJ_IF_MAYBE (o, old) {
    if (o->delay <= fresh.delay) return *o;
  }
  return fresh;
}

}  // namespace

kj::String TimeSource::shown() const {
  if (addresses.empty() || addresses[0] == name) return kj::str(name);
  return kj::str(name, " (", addresses[0], ")");
}

kj::Duration TimeSource::leastDelay() const {
  auto least = delays.empty() ? 0 * kj::SECONDS : delays[0];
  for (auto d : delays) least = kj::min(least, d);
  return least;
}

TimeSources::TimeSources(kj::Array<kj::String> namesParam) : names(kj::mv(namesParam)) {}

kj::Vector<kj::String> TimeSources::toResolve() const {
  kj::Vector<kj::String> result;
  for (auto& name : names) {
    bool known = false, answering = true;
    for (auto& source : sources) {
      if (source->name != name) continue;
      known = true;
      answering = answering && source->misses < kMissesToResolve && !source->addresses.empty();
    }
    if (!known || !answering) result.add(kj::str(name));
  }
  return result;
}

void TimeSources::resolved(kj::StringPtr name, kj::ArrayPtr<const kj::String> addresses) {
  kj::Vector<kj::Own<TimeSource>> others, own;
  for (auto& source : sources) {
    if (source->name != name) {
      others.add(kj::mv(source));
    } else if (source->misses < kMissesToResolve && !source->addresses.empty() &&
               contains(addresses, source->addresses[0])) {
      // Facts about the server stay valid: how fast it is, and how long a pause it requested.
      while (source->addresses.size() > 1) source->addresses.removeLast();
      own.add(kj::mv(source));
    }
  }
  auto kept = KJ_MAP(source, own) {
    return kj::str(source->addresses[0]);
  };
  kj::String why;
  for (auto& address : addresses) {
    if (contains(kept, address)) continue;
    KJ_IF_MAYBE (code, refused.find(address)) {
      why = kj::str(name == address ? kj::str(name) : kj::str(name, " (", address, ")"),
                    ": it refuses service (", *code, ")");
      continue;
    }
    size_t most = names.size() == 1 ? kMostOfOneName : 1;
    if (own.size() < most) {
      own.add(kj::heap<TimeSource>());
      own.back()->name = kj::str(name);
    }
    // Spare addresses are distributed evenly.
    size_t least = 0;
    for (auto i : kj::indices(own)) {
      if (own[i]->addresses.size() < own[least]->addresses.size()) least = i;
    }
    own[least]->addresses.add(kj::str(address));
  }
  if (own.empty()) {
    unresolved(name, kj::mv(why));
  } else {
    unknown.erase(name);
  }
  for (auto& source : own) others.add(kj::mv(source));
  sources = kj::mv(others);
}

void TimeSources::unresolved(kj::StringPtr name, kj::String why) {
  unknown.upsert(kj::str(name), kj::mv(why),
                 [](kj::String& old, kj::String&& next) { old = kj::mv(next); });
}

kj::Vector<TimeSource*> TimeSources::queryable(kj::TimePoint now) {
  kj::Vector<TimeSource*> result;
  for (auto& source : sources) {
    if (!source->addresses.empty() && source->pausedUntil <= now) result.add(source.get());
  }
  return result;
}

kj::TimePoint TimeSources::firstQueryTime() const {
  kj::Maybe<kj::TimePoint> first;
  for (auto& source : sources) {
    if (!source->addresses.empty()) {
      first = kj::min(first.orDefault(source->pausedUntil), source->pausedUntil);
    }
  }
  return first.orDefault(kj::origin<kj::TimePoint>());
}

bool TimeSources::handleAnswer(TimeSource& source, ntp::Verdict verdict, kj::TimePoint now) {
  KJ_SWITCH_ONEOF(verdict) {
    KJ_CASE_ONEOF(sample, ntp::Sample) {
      source.misses = source.rateLimits = 0;
      source.problem = kj::String();
      unknown.erase(source.name);
      source.best = better(source.best, sample);
      source.delays.add(sample.delay);
      if (source.delays.size() > kDelaysKept) {
        for (size_t i = 0; i + 1 < source.delays.size(); ++i) {
          source.delays[i] = source.delays[i + 1];
        }
        source.delays.removeLast();
      }
      return false;
    }
    KJ_CASE_ONEOF(kiss, ntp::KissOfDeath) {
      if (kiss.action == ntp::KissOfDeath::Action::kSlowDown) {
        auto doublings = kj::min(source.rateLimits++, kMostDoublings);
        source.misses = 0;  // the server is reachable
        source.pausedUntil = now + kFirstPause * (1 << doublings);
        source.problem = kj::str(source.shown(), ": it asks for fewer queries (RATE)");
        return false;
      }
      source.problem = kj::str(source.shown(), ": it refuses service (", kiss.code, ")");
      ++source.misses;
      if (kiss.action == ntp::KissOfDeath::Action::kNone) return false;
      refused.upsert(kj::str(source.addresses[0]), kj::mv(kiss.code),
                     [](kj::String& old, kj::String&& next) { old = kj::mv(next); });
      rotate(source.addresses);
      source.addresses.removeLast();
      return !source.addresses.empty();
    }
    KJ_CASE_ONEOF(rejected, ntp::Rejected) {
      source.problem = kj::str(source.shown(), ": ", rejected.error);
      ++source.misses;
      rotate(source.addresses);
      return source.addresses.size() > 1;
    }
  }
  return false;
}

size_t TimeSources::votes() const {
  size_t count = sources.size();
  for (auto& name : names) {
    bool known = false;
    for (auto& source : sources) known = known || source->name == name;
    if (!known) ++count;
  }
  return count;
}

void TimeSources::forgetSamples() {
  for (auto& source : sources) source->best = nullptr;
}

kj::String TimeSources::problems() const {
  kj::Vector<kj::String> parts;
  for (auto& row : unknown) parts.add(kj::str(row.value));
  for (auto& source : sources) {
    if (source->best == nullptr && source->problem.size() > 0) {
      parts.add(kj::str(source->problem));
    }
  }
  return kj::strArray(parts, "; ");
}

namespace {

bool covers(const Claim& claim, kj::Duration point) {
  return claim.offset - claim.error <= point && point <= claim.offset + claim.error;
}

}  // namespace

// A region that most claims cover begins where one of them begins. There are at most a dozen
// claims.
kj::Maybe<Agreement> agree(kj::ArrayPtr<const Claim> claims, size_t needed) {
  kj::Duration point = 0 * kj::SECONDS;
  size_t most = 0;
  for (auto& candidate : claims) {
    auto begin = candidate.offset - candidate.error;
    size_t count = 0;
    for (auto& claim : claims) count += covers(claim, begin);
    if (count > most) {
      most = count;
      point = begin;
    }
  }
  if (most == 0 || most < needed || 2 * most <= claims.size()) return nullptr;
  Agreement result{{}, 0};
  for (auto i : kj::indices(claims)) {
    if (!covers(claims[i], point)) continue;
    if (result.members.empty() || claims[i].error < claims[result.best].error) result.best = i;
    result.members.add(i);
  }
  return kj::mv(result);
}

}  // namespace talos::machined
