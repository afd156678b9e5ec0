// What the machine tells about itself as it happens: events for those who follow them, and lines
// for the console and the ring of logs. Nothing is kept here: after a crash there is what was told.
#pragma once

#include "machined/boot/sequencer.h"
#include "machined/logs/event-ring.h"
#include "machined/logs/node-console.h"

namespace talos::machined {

class Announcements final : public SequenceListener {
 public:
  Announcements(Events& events, Console& console, Logs& logs)
      : events(events), console(console), logs(logs) {}
  KJ_DISALLOW_COPY_AND_MOVE(Announcements);

  void sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error, bool locked) override;
  void phase(kj::StringPtr name, rpc::Action action) override;
  void task(kj::StringPtr name, rpc::Action action) override;
  void line(kj::StringPtr text) override;

  void service(rpc::ServiceStateEvent::Reader event);
  // A config on trial has begun, goes on, or is over, and when the one of before comes back.
  void trial(kj::StringPtr what, kj::Maybe<kj::Duration> revertsIn);
  void networkRepaired(kj::StringPtr link, kj::StringPtr what);
  void upgrade(kj::StringPtr text);
  void drain(kj::StringPtr text);  // of the node, before an upgrade or a reset
  void time(kj::StringPtr text);   // what the service timed has to say

 private:
  Events& events;
  Console& console;
  Logs& logs;
};

}  // namespace talos::machined
