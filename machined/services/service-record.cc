#include "machined/services/service-record.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <errno.h>
#include <kj/debug.h>
#include <kj/exception.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace talos::machined {
namespace {

constexpr size_t kMostBytes = 1u << 20;

uint64_t nanoseconds(kj::Date date) {
  return (date - kj::UNIX_EPOCH) / kj::NANOSECONDS;
}

}  // namespace

void ServiceRecord::add(rpc::ServiceState state, kj::StringPtr message, kj::Date now) {
  newest = state;
  events.push_back({kj::heapString(message), state, nanoseconds(now)});
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
  fillHealth(out.initHealth());
  auto list = out.initEvents(events.size());
  for (size_t i = 0; i < events.size(); i++) {
    list[i].setMessage(events[i].message);
    list[i].setState(events[i].state);
    list[i].setTime(events[i].time);
  }
}

void ServiceRecord::restore(rpc::Service::Reader in) {
  events.clear();
  auto list = in.getEvents();
  size_t first = list.size() > kKept ? list.size() - kKept : 0;
  for (size_t i = first; i < list.size(); i++) {
    events.push_back({kj::heapString(list[i].getMessage()), list[i].getState(), list[i].getTime()});
  }
  newest = in.getState();
  auto health = in.getHealth();
  unknown = health.getUnknown();
  good = health.getHealthy();
  healthMessage = kj::heapString(health.getLastMessage());
  healthChange = health.getLastChange();
}

kj::AutoCloseFd writeServiceFile(const ServiceRecord& record, kj::StringPtr id, int pid) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<rpc::Service>();
  root.setId(id);
  root.setPid(pid);
  record.fill(root);
  auto words = capnp::messageToFlatArray(message);
  int fd;
  KJ_SYSCALL(fd = memfd_create("service", MFD_CLOEXEC));
  kj::AutoCloseFd file(fd);
  kj::FdOutputStream(fd).write(words.asBytes().begin(), words.asBytes().size());
  return file;
}

kj::Maybe<StoredService> parseServiceFile(kj::ArrayPtr<const kj::byte> bytes, kj::StringPtr id) {
  auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  memcpy(words.begin(), bytes.begin(), words.asBytes().size());
  kj::Maybe<StoredService> result;
  auto bad = kj::runCatchingExceptions([&] {
    capnp::FlatArrayMessageReader reader(words);
    auto root = reader.getRoot<rpc::Service>();
    if (root.getId() != id) return;
    StoredService stored;
    stored.record.restore(root);
    stored.pid = root.getPid();
    result = kj::mv(stored);
  });
  if (bad != nullptr) return nullptr;
  return result;
}

kj::Maybe<StoredService> readServiceFile(int fd, kj::StringPtr id) {
  struct stat status;
  if (fstat(fd, &status) != 0 || status.st_size <= 0 || status.st_size > kMostBytes) return nullptr;
  auto bytes = kj::heapArray<kj::byte>(status.st_size);
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = pread(fd, bytes.begin() + done, bytes.size() - done, done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return nullptr;
    done += n;
  }
  return parseServiceFile(bytes, id);
}

}  // namespace talos::machined
