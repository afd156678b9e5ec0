#include "machined/services/service-record.h"

namespace talos::machined {
namespace {

uint64_t nanoseconds(kj::Date date) {
  return (date - kj::UNIX_EPOCH) / kj::NANOSECONDS;
}

}  // namespace

uint64_t nanosecondsOf(kj::TimePoint uptime) {
  return (uptime - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS;
}

void ServiceRecord::add(rpc::ServiceState state, kj::StringPtr message, kj::Date now,
                        kj::TimePoint uptime) {
  if (state == rpc::ServiceState::RUNNING && newest != state) ++starts;
  newest = state;
  events.push_back({kj::heapString(message), state, nanoseconds(now), nanosecondsOf(uptime)});
  while (events.size() > kKept) events.pop_front();
}

bool ServiceRecord::setHealth(bool healthy, kj::StringPtr message, kj::Date now) {
  bool changed = unknown || healthy != good;
  unknown = false;
  good = healthy;
  healthMessage = kj::heapString(message);
  if (changed) healthChange = nanoseconds(now);
  return changed;
}

void ServiceRecord::forgetHealth() {
  unknown = true;
  good = false;
  healthMessage = nullptr;
  healthChange = 0;
}

void ServiceRecord::fillHealth(rpc::Health::Builder out) const {
  out.setUnknown(unknown);
  out.setHealthy(good);
  out.setLastMessage(healthMessage);
  out.setLastChange(healthChange);
}

void ServiceRecord::fill(rpc::Service::Builder out) const {
  out.setState(newest);
  out.setStarts(starts);
  fillHealth(out.initHealth());
  auto list = out.initEvents(events.size());
  for (size_t i = 0; i < events.size(); i++) {
    list[i].setMessage(events[i].message);
    list[i].setState(events[i].state);
    list[i].setTime(events[i].time);
    list[i].setUptime(events[i].uptime);
  }
}

void ServiceRecord::restore(rpc::Service::Reader in) {
  events.clear();
  auto list = in.getEvents();
  size_t first = list.size() > kKept ? list.size() - kKept : 0;
  for (size_t i = first; i < list.size(); i++) {
    events.push_back({kj::heapString(list[i].getMessage()), list[i].getState(), list[i].getTime(),
                      list[i].getUptime()});
  }
  newest = in.getState();
  starts = in.getStarts();
  auto health = in.getHealth();
  unknown = health.getUnknown();
  good = health.getHealthy();
  healthMessage = kj::heapString(health.getLastMessage());
  healthChange = health.getLastChange();
}

}  // namespace talos::machined
