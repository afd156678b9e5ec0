// Publishes what happens to the machine as it happens: events, and lines on the console and in the
// logs. Nothing is kept here.
#pragma once

#include <kj/function.h>

#include "machined/boot/sequencer.h"
#include "machined/logs/event-ring.h"
#include "machined/logs/node-console.h"

namespace talos::machined {

class Announcements final : public SequenceListener {
 public:
  Announcements(Events& events, Console& console, Logs& logs)
      : events(events), console(console), logs(logs) {}
  KJ_DISALLOW_COPY_AND_MOVE(Announcements);

  // Called at each step of a sequence, for who shows it.
  void whenProgressed(kj::Function<void()> call) { progressed = kj::mv(call); }

  void sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error, bool locked) override;
  void phase(kj::StringPtr name, rpc::Action action) override;
  void task(kj::StringPtr name, rpc::Action action) override;
  void line(kj::StringPtr text) override;

  void service(rpc::ServiceStateEvent::Reader event);
  // A trial of a config starts, continues or ends; `revertsIn`: until the previous config is
  // active.
  void trial(kj::StringPtr what, kj::Maybe<kj::Duration> revertsIn);
  void networkRepaired(kj::StringPtr link, kj::StringPtr what);
  void upgrade(kj::StringPtr text);
  void drain(kj::StringPtr text);  // of the node, before an upgrade or a reset
  void time(kj::StringPtr text);   // a message of the service timed

 private:
  Events& events;
  Console& console;
  Logs& logs;
  kj::Function<void()> progressed = []() {};
};

}  // namespace talos::machined
