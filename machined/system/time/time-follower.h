// Keeps the wall clock right by asking NTP servers (RFC 5905 §11, RFC 4330 §10, RFC 8633 §3).
//
// A poll asks every server once; a majority decides (time-agreement.h), and of that majority the
// server with the least error is followed.
// * If most servers are silent, they are asked again after 1 s to 64 s; after the third time those
//   that answered decide.
// * At the start, and when the clock seems to be off by more than 128 ms, three more rounds follow
//   2 s apart; of each server the answer with the least delay counts.
// * The next poll comes after 64 s plus a random time of up to 1023 s, less while the clock is not
//   steady.
//
// An offset of more than 128 ms is stepped at once (the first time after one round: nothing can
// rely on a clock that was never set); a smaller one is slewed. Of an offset only the part is
// believed that network delay above the recent minimum does not explain.
//
// Nothing is kept on disk: a restarted one asks again within a second, and the kernel keeps the
// frequency that it has learned.
#pragma once

#include "common/base/signal.h"
#include "machined/system/time/time-query.h"
#include "machined/system/time/time-sources.h"

namespace talos::machined {

struct TimeState {
  bool synced = false;             // once true, until it is stopped or gets other servers
  unsigned steps = 0;              // since it was made
  kj::String server;               // that is followed
  kj::Maybe<kj::Duration> offset;  // as the newest poll found it
  kj::String problem;              // of the newest poll
};

class TimeFollower {
 public:
  struct Dependencies {
    kj::Timer& timer;
    SystemClock& clock;
    TimeNetwork& network;
    kj::Function<double()> random;   // [0, 1)
    kj::Function<uint64_t()> nonce;  // that nobody can guess
    kj::Function<void(kj::StringPtr)> log;
    kj::Function<void()> changed;  // the state
    kj::Function<void()> stepped;  // the wall clock is another one now
    ForeignBytes& foreign;         // who reads the answers
  };
  explicit TimeFollower(Dependencies deps);
  ~TimeFollower() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(TimeFollower);

  // Takes effect at once. Never empty.
  void setServers(kj::Array<kj::String> names);
  // Until dropped; one at a time.
  kj::Promise<void> run();

  const TimeState& state() const { return status; }
  // Resolves at once when it is.
  kj::Promise<void> whenSynced();

  // One question, for whoever wants to know: "" is the server that is followed, else the first one
  // of the config. Unavailable, saying why.
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
