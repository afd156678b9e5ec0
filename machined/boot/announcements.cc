#include "machined/boot/announcements.h"

#include "common/base/date.h"
#include "common/base/log.h"
#include "machined/services/service-lifecycle.h"
#include "machined/system/time/time-service.h"

namespace talos::machined {

void Announcements::sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error,
                             bool locked) {
  events.sequence(name, action, error, locked);
  progressed();
}
void Announcements::phase(kj::StringPtr name, rpc::Action action) {
  events.phase(name, action);
  progressed();
}
void Announcements::task(kj::StringPtr name, rpc::Action action) {
  events.task(name, action);
}
void Announcements::line(kj::StringPtr text) {
  console.say(text);
}

void Announcements::service(rpc::ServiceStateEvent::Reader event) {
  events.publish([event](rpc::Event::Builder out) { out.setService(event); });
  console.say(kj::str("service[", event.getService(), "](", nameOf(event.getState()),
                      "): ", event.getMessage()));
}

void Announcements::trial(kj::StringPtr what, kj::Maybe<kj::Duration> revertsIn) {
  auto text = kj::str(what);
  KJ_IF_MAYBE (left, revertsIn) {
    text = kj::str(what, ": reverting in ", *left / kj::SECONDS, " s, ", "unless it is confirmed");
  }
  console.say(kj::str("machine config: ", text), Tone::kAlarm);
  events.publish([&](rpc::Event::Builder out) {
    auto event = out.initConfig();
    event.setMessage(text);
    event.setRevertsInMs(revertsIn.orDefault(0 * kj::SECONDS) / kj::MILLISECONDS);
  });
}

void Announcements::changeTrial(kj::StringPtr what, Tone tone) {
  console.say(kj::str("machine config: ", what), tone);
  events.publish([&](rpc::Event::Builder out) { out.initConfig().setMessage(what); });
}

void Announcements::networkRepaired(kj::StringPtr link, kj::StringPtr what) {
  events.publish([&](rpc::Event::Builder out) {
    auto event = out.initNetwork();
    event.setLink(link);
    event.setMessage(kj::str("another program changed it, restoring: ", what));
  });
}

void Announcements::upgrade(kj::StringPtr text) {
  console.say(text, Tone::kAlarm);
  events.publish([&](rpc::Event::Builder out) { out.initUpgrade().setMessage(text); });
}

void Announcements::drain(kj::StringPtr text) {
  upgrade(text);  // clients that wait for an upgrade follow these events
}

void Announcements::time(kj::StringPtr text) {
  auto now = dateTextMs(kj::systemPreciseCalendarClock().now());
  auto line = kj::str("time=", now, ' ', log::format(log::Level::kInfo, text, {}), '\n');
  logs.append(kTimed, line.asArray());
  console.say(kj::str(kTimed, ": ", text));
}

}  // namespace talos::machined
