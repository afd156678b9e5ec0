// A model for tests: hosts that share an address, with times as numbers. Each host has a process
// that runs a Candidate, a kernel that removes addresses late, and a clock that is fast or slow. An
// etcd has leases and watches, and is sometimes without a leader. Messages between them are slow,
// lost or doubled. Processes are stopped anywhere, also between a decision and its action, killed
// and restarted. Everything follows from one number.
//
// Checked whenever a host gets the address: no other host's kernel has it.
#pragma once

#include <kj/debug.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "vipd/test-timeline.h"
#include "vipd/vip-candidate.h"

namespace talos::vipd {

// Its time is the true time.
class Model final : public Timeline {
 public:
  struct Options {
    unsigned hosts = 3;
    Time trouble = 8 * kSecond;  // duration of the faults
    // Mistakes that a program could make.
    bool fromReceipt = false;       // calculates a lease from the answer to its renewal
    bool noGuardedSection = false;  // checks the clock, then acts
    bool leavesWhatCameLate = false;
    bool keepsWhenLeaving = false;  // reports the release before removing the address
    bool ignoresAge = false;        // ignores the age of keys: takes the address once it has a key
  };

  struct Outcome {
    std::string overlap;     // empty: no overlap
    bool recovered = false;  // a host has the address in the end
    Time away = 0;           // time without a holder after the trouble
    unsigned changes = 0;    // changes of the holder
    unsigned renewals = 0, exits = 0;
  };

  Outcome outcome;

  Model(uint64_t seed, Options options)
      : Timeline(seed), options(options), calm(options.trouble == 0) {
    for (unsigned i = 0; i < options.hosts; ++i) hosts.push_back(std::make_unique<Host>());
    for (unsigned i = 0; i < hosts.size(); ++i) {
      hosts[i]->drift = double(int(below(1000)) - 500) / 1e6;
      hosts[i]->offset = kSecond * Time(1 + below(100000));
      start(i);
    }
    leader = true;
  }

  // Runs with faults for a while, then without, until a host has held the address for `settled`, at
  // most `bound`.
  Outcome run(Time bound) {
    if (options.trouble > 0) at(below(500) * kMs, [this] { fault(); });
    at(options.trouble, [this] { heal(); });
    auto end = options.trouble + bound;
    while (outcome.overlap.empty() && happen(end)) {
      if (healed && holders() > 0) {
        outcome.recovered = true;
        outcome.away = now - options.trouble;
        break;
      }
    }
    return outcome;
  }

  // --- for stories
  void runUntil(Time end) {
    while (happen(end)) {
    }
    now = end;
  }
  int holder() const {
    for (unsigned i = 0; i < hosts.size(); ++i) {
      if (hosts[i]->until > now) return int(i);
    }
    return -1;
  }
  void stop(unsigned i) { hosts[i]->stopped = true; }
  void go(unsigned i) {
    auto& host = *hosts[i];
    host.stopped = false;
    auto found = std::move(host.inbox);
    host.inbox.clear();
    for (auto& what : found) {
      if (host.process.get() != nullptr && !host.stopped) what();
    }
    work(i);
  }
  void kill(unsigned i) {
    auto& host = *hosts[i];
    ++host.life;
    host.process = nullptr;
    host.inbox.clear();
  }
  void start(unsigned i) {
    auto& host = *hosts[i];
    if (host.process.get() != nullptr) return;
    ++host.life;
    host.stopped = false;
    host.chain = host.followed = 0;
    host.process = kj::heap<Candidate>(Ip::require("10.0.0.1"), 2 * kj::SECONDS,
                                       [this] { return double(below(1000)) / 1000; });
    host.process->stand(clock(host), kj::str("host-", i), nullptr);
    work(i);
  }
  void stepDown(unsigned i) {
    auto& host = *hosts[i];
    if (host.process.get() == nullptr) return;
    host.process->stand(clock(host), kj::str("host-", i), kj::str("told to"));
    work(i);
  }
  void deleteKeyOf(unsigned i) {
    for (auto& [name, key] : keys) {
      if (key.host != int(i)) continue;
      removeKey(std::string(name));
      return;
    }
  }
  // Leaves etcd without a leader for a while. The next leader does not know when a lease was
  // renewed, and lets each lease live for its whole time and an election timeout.
  void loseLeader(Time election) {
    if (!leader) return;
    leader = false;
    ++epoch;
    for (unsigned i = 0; i < hosts.size(); ++i) endFollow(i);
    at(now + election, [this] {
      leader = true;
      for (auto& [id, lease] : leases) {
        lease.end = now + lease.ttl + kElectionTimeout;
        watchLease(id);
      }
    });
  }
  Time time() const { return now; }

 private:
  static constexpr Time kElectionTimeout = kSecond;  // etcd's default

  struct Host {
    kj::Own<Candidate> process;
    unsigned life = 0;
    bool stopped = false, cutOff = false;
    double drift = 0;
    Time offset = 0;
    Time until = 0;  // The kernel has the address until then.
    uint64_t chain = 0, followed = 0, alarm = 0;
    std::vector<std::function<void()>> inbox;  // messages for a stopped process
  };
  struct Key {
    std::string value;
    int64_t created, lease;
    int host;
  };
  struct Lease {
    Time end, ttl;
  };

  Options options;
  std::vector<std::unique_ptr<Host>> hosts;
  bool calm;
  bool healed = false, leader = false;
  int last = -1;  // holder
  std::map<std::string, Key> keys;
  std::map<int64_t, Lease> leases;
  int64_t revision = 1, nextLease = 1000;
  uint64_t followCount = 0;
  unsigned epoch = 0;  // epoch of the leader

  kj::TimePoint clock(const Host& host) const {
    return kj::origin<kj::TimePoint>() +
           (host.offset + now + Time(double(now) * host.drift)) * kj::NANOSECONDS;
  }
  unsigned holders() const {
    unsigned count = 0;
    for (auto& host : hosts) count += host->until > now;
    return count;
  }

  // --- faults
  void fault() {
    if (now >= options.trouble) return;
    at(now + Time(below(1500)) * kMs, [this] { fault(); });
    unsigned i = below(hosts.size());
    // The holder is the most valuable target.
    if (oneIn(2) && holder() >= 0) i = unsigned(holder());
    auto& host = *hosts[i];
    auto later = now + Time(1 + below(5000)) * kMs;
    switch (below(7)) {
      case 0:
        kill(i);
        at(now + Time(below(3000)) * kMs, [this, i] { start(i); });
        break;
      case 1:
      case 2:
        stop(i);
        at(later, [this, i] { go(i); });
        break;
      case 3:
        host.cutOff = true;
        endFollow(i);  // A member without a leader ends its watches.
        at(later, [this, i] { hosts[i]->cutOff = false; });
        break;
      case 4:
        loseLeader(Time(500 + below(2000)) * kMs);
        break;
      case 5:
        stepDown(i);
        at(now + Time(below(2000)) * kMs, [this, i] { stand(i); });
        break;
      case 6:
        for (unsigned each = 0; each < hosts.size(); ++each) endFollow(each);
        break;
    }
  }
  void stand(unsigned i) {
    auto& host = *hosts[i];
    if (host.process.get() == nullptr) return;
    host.process->stand(clock(host), kj::str("host-", i), nullptr);
    work(i);
  }
  void heal() {
    healed = calm = true;
    for (unsigned i = 0; i < hosts.size(); ++i) {
      auto& host = *hosts[i];
      host.cutOff = false;
      start(i);
      if (host.stopped) go(i);
      stand(i);
    }
  }
  // --- etcd
  void watchLease(int64_t id) {
    auto found = leases.find(id);
    if (found == leases.end()) return;
    // etcd checks leases twice a second.
    at(found->second.end + Time(below(oneIn(2) ? 5 : 500)) * kMs, [this, id, was = epoch] {
      auto found = leases.find(id);
      if (found == leases.end() || was != epoch || !leader) return;
      if (found->second.end <= now) revoke(id);
    });
  }
  void revoke(int64_t id) {
    leases.erase(id);
    std::vector<std::string> gone;
    for (auto& [name, key] : keys) {
      if (key.lease == id) gone.push_back(name);
    }
    for (auto& name : gone) removeKey(name);
  }
  void removeKey(const std::string& name) {
    ++revision;
    keys.erase(name);
    notify(name, true);
  }
  static etcd::KeyValue kvOf(const std::string& name, const Key& key) {
    etcd::KeyValue kv;
    kv.key = kj::heapString(name.data(), name.size());
    kv.value = kj::heapString(key.value.data(), key.value.size());
    kv.createRevision = key.created;
    kv.lease = key.lease;
    return kv;
  }
  void notify(const std::string& name, bool deleted) {
    auto value = deleted ? std::string() : keys[name].value;
    auto created = deleted ? 0 : keys[name].created;
    for (unsigned i = 0; i < hosts.size(); ++i) {
      auto& host = *hosts[i];
      if (host.followed == 0 || host.cutOff) continue;
      at(now + latency(), [this, i, name, deleted, value, created, life = host.life,
                           followed = host.followed, at = revision] {
        auto& host = *hosts[i];
        whenRunning(i, life, [this, name, deleted, value, created, followed, at, &host] {
          if (host.followed != followed) return;
          etcd::Events notice;
          notice.revision = at;
          etcd::Event event;
          event.deleted = deleted;
          event.kv = kvOf(name, Key{value, created, 0, 0});
          event.kv.modRevision = at;
          notice.events = kj::arr(kj::mv(event));
          host.process->happened(clock(host), notice);
        });
      });
    }
  }
  void endFollow(unsigned i) {
    auto& host = *hosts[i];
    if (host.followed == 0) return;
    host.followed = 0;
    at(now + latency(), [this, i, life = host.life] {
      whenRunning(i, life, [this, i] { hosts[i]->process->followEnded(clock(*hosts[i])); });
    });
  }

  // --- messages
  Time latency() {
    if (!calm && oneIn(6)) return Time(below(oneIn(4) ? 1500 : 330)) * kMs;
    return kMs / 5 + Time(below(4000)) * kMs / 1000;
  }
  bool lost(Host& host) { return host.cutOff || !leader || (!calm && oneIn(40)); }
  // Runs `what` while the process runs: a stopped process gets it when it continues.
  void whenRunning(unsigned i, unsigned life, std::function<void()> what) {
    auto& host = *hosts[i];
    if (host.life != life || host.process.get() == nullptr) return;
    if (host.stopped) {
      host.inbox.push_back(std::move(what));
      return;
    }
    what();
    work(i);
  }
  // Calls etcd: `serve` changes it and returns the event for the process; an answer later than
  // `limit` is `timeout`.
  void call(unsigned i, Time limit, std::function<std::function<void(Candidate&)>()> serve,
            std::function<void(Candidate&)> timeout, std::function<bool()> counts) {
    auto& host = *hosts[i];
    auto done = std::make_shared<bool>(false);
    auto life = host.life;
    auto finish = [this, i, life, done, counts](std::function<void(Candidate&)> deliver) {
      whenRunning(i, life, [this, i, done, counts, deliver] {
        if (*done || !counts()) return;
        *done = true;
        deliver(*hosts[i]->process);
      });
    };
    at(now + limit, [finish, timeout] { finish(timeout); });
    unsigned copies = !calm && oneIn(50) ? 2 : 1;
    for (unsigned copy = 0; copy < copies; ++copy) {
      if (lost(host)) continue;
      at(now + latency(), [this, i, serve, finish] {
        if (!leader) return;
        auto answer = serve();
        if (!lost(*hosts[i])) at(now + latency(), [finish, answer] { finish(answer); });
      });
    }
  }

  // --- a process
  void work(unsigned i) {
    auto& host = *hosts[i];
    if (host.process.get() == nullptr || host.stopped) return;
    for (;;) {
      auto action = host.process->next(clock(host));
      KJ_IF_MAYBE (what, action) {
        if (!perform(i, *what)) return;
      } else {
        break;
      }
    }
    auto local = clock(host);
    auto wait = (host.process->wake(local) - local) / kj::NANOSECONDS + 1000;
    at(now + wait, [this, i, alarm = ++host.alarm] {
      if (hosts[i]->alarm == alarm) work(i);
    });
  }

  // Returns false if the process does not run any more.
  bool perform(unsigned i, Action& action) {
    auto& host = *hosts[i];
    auto chain = [&](Time limit, auto serve, auto failed) {
      auto number = ++host.chain;
      call(i, limit, serve, failed, [&host, number] { return host.chain == number; });
    };
    auto failed = [this, &host](Candidate& process) { process.failed(clock(host), "timed out"); };
    auto left = [this, &host](Candidate& process) { process.left(clock(host)); };
    KJ_SWITCH_ONEOF(action) {
      KJ_CASE_ONEOF(grant, Grant) {
        auto sent = clock(host);
        chain(
            kSecond,
            [this, sent, &host] {
              auto id = ++nextLease;
              leases[id] = {now + 2 * kSecond, 2 * kSecond};
              watchLease(id);
              return [this, id, sent, &host](Candidate& process) {
                process.granted(clock(host), answer(id, sent, host));
              };
            },
            failed);
        return true;
      }
      KJ_CASE_ONEOF(enter, Enter) {
        std::string name = enter.key.cStr(), value = enter.value.cStr();
        chain(
            kSecond,
            [this, i, name, value, lease = enter.lease,
             &host]() -> std::function<void(Candidate&)> {
              if (!leases.contains(lease)) {
                return [this, &host](Candidate& process) {
                  process.failed(clock(host), "no such lease");
                };
              }
              if (!keys.contains(name)) {
                keys[name] = {value, ++revision, lease, int(i)};
                notify(name, false);
              }
              return [this, created = keys[name].created, &host](Candidate& process) {
                process.entered(clock(host), created);
              };
            },
            failed);
        return true;
      }
      KJ_CASE_ONEOF(look, Look) {
        chain(
            kSecond,
            [this, &host] {
              auto observed = std::make_shared<etcd::RangeResult>();
              observed->revision = revision;
              kj::Vector<etcd::KeyValue> all;
              for (auto& [name, key] : keys) {
                // A program that ignores the age sees only its own key.
                if (options.ignoresAge && hosts[key.host].get() != &host) continue;
                all.add(kvOf(name, key));
              }
              observed->kvs = all.releaseAsArray();
              return [this, observed, &host](Candidate& process) {
                process.saw(clock(host), *observed);
              };
            },
            failed);
        return true;
      }
      KJ_CASE_ONEOF(follow, Follow) {
        host.followed = lost(host) ? 0 : ++followCount;
        // Missed changes require a new look, as if the watch had started too late.
        if (host.followed == 0 || revision >= follow.from) endFollowSoon(i);
        return true;
      }
      KJ_CASE_ONEOF(release, Release) {
        std::string name = release.key.cStr();
        chain(
            500 * kMs,
            [this, name, created = release.created, left] {
              auto found = keys.find(name);
              if (found != keys.end() && found->second.created == created) {
                ++revision;
                found->second.value = kReleased.cStr();
                notify(name, false);
              }
              return left;
            },
            left);
        return true;
      }
      KJ_CASE_ONEOF(end, Revoke) {
        chain(
            500 * kMs,
            [this, lease = end.lease, left] {
              revoke(lease);
              return left;
            },
            left);
        return true;
      }
      KJ_CASE_ONEOF(renew, Renew) {
        renewLease(i, renew);
        return true;
      }
      KJ_CASE_ONEOF(put, Put) {
        if (stalled()) return oneIn(4) ? wait(i, put.stay) : stall(i, put.stay);
        return this->put(i, put.stay);
      }
      KJ_CASE_ONEOF(remove, Remove) {
        if (options.keepsWhenLeaving && host.until > now) {
          auto until = host.until;
          at(now + 5 * kMs, [this, i, until] {
            if (hosts[i]->until == until) hosts[i]->until = now;
          });
        } else {
          host.until = kj::min(host.until, now);
        }
        host.process->removed(clock(host), true);
        return true;
      }
    }
    KJ_UNREACHABLE;
  }
  void endFollowSoon(unsigned i) {
    auto& host = *hosts[i];
    host.followed = ++followCount;
    endFollow(i);
  }

  etcd::Lease answer(int64_t id, kj::TimePoint sent, Host& host) {
    return {id, 2 * kj::SECONDS, options.fromReceipt ? clock(host) : sent};
  }
  void renewLease(unsigned i, Renew& renew) {
    auto& host = *hosts[i];
    ++outcome.renewals;
    auto sent = clock(host);
    auto id = renew.lease;
    call(
        i, renew.within / kj::NANOSECONDS,
        [this, id, sent, &host]() -> std::function<void(Candidate&)> {
          auto found = leases.find(id);
          if (found == leases.end()) {
            return [this, id, sent, &host](Candidate& process) {
              process.renewalFailed(clock(host), id, sent, true, "no such lease");
            };
          }
          found->second.end = now + found->second.ttl;
          watchLease(id);
          return [this, id, sent, &host](Candidate& process) {
            process.renewed(clock(host), answer(id, sent, host));
          };
        },
        [this, id, sent, &host](Candidate& process) {
          process.renewalFailed(clock(host), id, sent, false, "timed out");
        },
        [] { return true; });
  }

  // --- the kernel
  bool stalled() { return !calm && oneIn(20); }
  // Stops the process between its decision and the system call.
  bool stall(unsigned i, Stay stay) {
    auto& host = *hosts[i];
    host.stopped = true;
    at(now + Time(below(oneIn(2) ? 300 : 4000)) * kMs, [this, i, stay, life = host.life] {
      if (hosts[i]->life != life) return;
      hosts[i]->stopped = false;
      if (put(i, stay)) go(i);
    });
    return false;
  }
  // Lets the process wait in its system call, because the kernel is busy. If it is late, the
  // process removes the address again and ends.
  bool wait(unsigned i, Stay stay) {
    auto& host = *hosts[i];
    host.stopped = true;
    at(now + Time(below(oneIn(2) ? 300 : 4000)) * kMs, [this, i, stay, life = host.life] {
      if (hosts[i]->life != life) return;
      hosts[i]->stopped = false;
      bool late = clock(*hosts[i]) >= stay.latest;
      if (!late || options.leavesWhatCameLate) take(i, stay);
      if (late) {
        end(i);
      } else {
        go(i);
      }
    });
    return false;
  }
  bool put(unsigned i, Stay stay) {
    auto& host = *hosts[i];
    if (clock(host) >= stay.latest && !options.noGuardedSection) {
      end(i);
      return false;
    }
    take(i, stay);
    return true;
  }
  // Ends the process by the timer of the guarded section.
  void end(unsigned i) {
    ++outcome.exits;
    kill(i);
    at(now + 5 * kMs, [this, i] { start(i); });
  }
  void take(unsigned i, Stay stay) {
    auto& host = *hosts[i];
    for (unsigned other = 0; other < hosts.size(); ++other) {
      if (other == i || hosts[other]->until <= now) continue;
      outcome.overlap =
          kj::str("at ", now / kMs, " ms host-", i, " gets the address, which host-", other,
                  " has for another ", (hosts[other]->until - now) / kMs, " ms")
              .cStr();
    }
    host.until = now + stay.seconds * kSecond + kernelLate();
    if (last != int(i)) ++outcome.changes;
    last = int(i);
    host.process->taken();
  }
  Time kernelLate() {
    // Another address changed shortly before the end of this one.
    if (!calm && oneIn(3)) return Time(1036 - below(oneIn(2) ? 50 : 1000)) * kMs;
    return Time(below(oneIn(2) ? 40 : 260)) * kMs;
  }
};

}  // namespace talos::vipd
