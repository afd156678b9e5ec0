// The wait of a service before its start: pure, the caller passes the time.
//
//   wait                                limit
//   conditions, dependencies            none; after each change and each second they are checked
//   other services, before the first    `waitsAtMost`, from the moment when the conditions are met;
//   start (waitsFor)                    the limit may change during the wait
//   services that go first              `givesWayFor`, from the moment when all the rest is met
//   (givesWayTo)
//
// A crash loses the limits: the next brain waits again.
#pragma once

#include "machined/services/service-work.h"

namespace talos::machined {

// The things that are missing for the start of a service, in words for users.
struct MissingForStart {
  kj::Vector<kj::String> conditions;           // and dependencies
  kj::Vector<kj::String> dispensable;          // services of waitsFor that are being started
  kj::Duration waitsAtMost = 0 * kj::SECONDS;  // for `dispensable`
  kj::Vector<kj::String> ahead;                // services of givesWayTo that are being started
};
// `hasRun`: the service has run since it was loaded, so it does not wait for `dispensable`.
MissingForStart missingForStart(const ServiceDefinition& definition, const ServiceSet& all,
                                bool hasRun);

// The wait before one start.
class StartWait {
 public:
  explicit StartWait(kj::Duration givesWayFor) : givesWayFor(givesWayFor) {}

  struct Decision {
    kj::Vector<kj::String> events;      // news for users
    kj::Maybe<kj::Duration> checkNext;  // nullptr: the service may be started
  };
  // Decides with what is missing now. Called again after `checkNext`, or after a change.
  Decision decide(MissingForStart missing, kj::TimePoint now);

 private:
  // A period that starts with the first call.
  class Allowance {
   public:
    kj::Duration left(kj::Duration length, kj::TimePoint now);

   private:
    kj::Maybe<kj::TimePoint> begin;
  };
  kj::Duration givesWayFor;
  Allowance waiting, givingWay;
  bool doesWithout = false;  // without the dispensable services
  kj::String shownText;
};

}  // namespace talos::machined
