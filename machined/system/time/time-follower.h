// Keeps the wall clock right by querying NTP servers (RFC 5905 §11, RFC 4330 §10, RFC 8633 §3).
//
// A poll queries every server once; a majority decides (time-sources.h), and the server of the
// majority with the least error is followed.
// * If most servers are silent, they are queried again after 1 s to 64 s; after the third time
//   those that answered decide.
// * At the start, and when the clock seems to be off by more than 128 ms, three more rounds follow
//   2 s apart; of each server the answer with the least delay counts.
// * The next poll comes after 64 s plus a random time of up to 1023 s, less while the clock is not
//   steady.
//
// An offset of more than 128 ms is stepped immediately (the first time after one round: no program
// can rely on a clock that was never set); a smaller one is slewed. The part of an offset that
// network delay above the recent minimum can explain is ignored.
//
// Nothing is kept on disk: a restarted follower queries again within a second, and the kernel keeps
// the frequency that it has learned.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "common/base/signal.h"
#include "common/net/ntp.h"
#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/system/time/time-interfaces.h"
#include "machined/system/time/time-sources.h"

namespace talos::machined {

// Makes one query to one NTP server.

struct QueryDependencies {
  kj::Timer& timer;
  SystemClock& clock;
  TimeNetwork& network;
  kj::Function<uint64_t()> nonce;  // unguessable
  ForeignBytes& foreign;           // parses the replies
};

// Queries a server. Never rejects: silence, a missing route and invalid replies yield Rejected with
// the reason. Skips a few datagrams that do not answer this query; more of them are a flood, and
// end the query.
kj::Promise<ntp::Verdict> queryServer(QueryDependencies& deps, kj::String address,
                                      kj::Duration timeout);

struct TimeState {
  bool synced = false;             // stays true until it is stopped or gets other servers
  unsigned steps = 0;              // since the object was made
  kj::String server;               // the followed one
  kj::Maybe<kj::Duration> offset;  // of the latest poll
  kj::String problem;              // of the latest poll
};

class TimeFollower {
 public:
  struct Dependencies {
    kj::Timer& timer;
    SystemClock& clock;
    TimeNetwork& network;
    kj::Function<double()> random;   // [0, 1)
    kj::Function<uint64_t()> nonce;  // unguessable
    kj::Function<void(kj::StringPtr)> log;
    kj::Function<void()> changed;  // the state has changed
    kj::Function<void()> stepped;  // the wall clock was stepped
    ForeignBytes& foreign;         // parses the answers
  };
  explicit TimeFollower(Dependencies deps);
  ~TimeFollower() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(TimeFollower);

  // Takes effect immediately. `names` is not empty.
  void setServers(kj::Array<kj::String> names);
  // Runs until dropped; one call at a time.
  kj::Promise<void> run();

  const TimeState& state() const { return status; }
  // Resolves when the clock is synchronised, immediately if it already is.
  kj::Promise<void> whenSynced();

  // Makes one query for a user: "" is the followed server, else the first one of the config.
  // Unavailable with the error.
  struct Answer {
    kj::String server;
    kj::Date local, remote;
  };
  kj::Promise<Answer> check(kj::String server);

 private:
  Dependencies deps;
  QueryDependencies query;
  TimeState status;
  kj::Array<kj::String> names;
  kj::String followed;  // its address
  Signal synced, renamed;

  class Session;
  void setSynced();
  void forget();
};

}  // namespace talos::machined
