// Publishes events of the machine as they happen: as API events, and as lines on the console and in
// the logs. Keeps no state.
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

  // `call` is called at each step of a sequence, for displays of the progress.
  void whenProgressed(kj::Function<void()> call) { progressed = kj::mv(call); }

  void sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error, bool locked) override;
  void phase(kj::StringPtr name, rpc::Action action) override;
  void task(kj::StringPtr name, rpc::Action action) override;
  void line(kj::StringPtr text) override;

  void service(rpc::ServiceStateEvent::Reader event);
  // Announces that a trial of a config starts, continues or ends; `revertsIn`: time until the
  // previous config is active.
  void trial(kj::StringPtr what, kj::Maybe<kj::Duration> revertsIn);
  // Announces the news of the trial of a change of the config.
  void changeTrial(kj::StringPtr what, Tone tone);
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
