#include "machined/hardware/readings-controllers.h"

#include <kj/hash.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/within.h"
#include "machined/hardware/disk-health.h"
#include "machined/hardware/readings.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/hardware-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

// Clients of the pool; disks have larger numbers.
constexpr uint64_t kSensors = 1, kDisks = 2;
uint64_t clientOf(kj::StringPtr disk) {
  return uint64_t{1} << 32 | kj::hashCode(disk);
}

// Requests the next run of its controller.
class Interval {
 public:
  Interval(kj::Timer& timer, kj::Duration length) : timer(timer), length(length) {}
  void wakeBy(kj::Function<void()> function) { wake = kj::mv(function); }
  void begin() {
    next = timer.afterDelay(length).then([this] { wake(); }).eagerlyEvaluate(nullptr);
  }

 private:
  kj::Timer& timer;
  kj::Duration length;
  kj::Function<void()> wake = [] {};
  kj::Promise<void> next = kj::READY_NOW;
};

struct Readings {
  kj::Vector<Sensor> sensors;
  kj::Vector<MemoryErrors> errors;
};

void writeSensors(Store& store, kj::StringPtr owner, kj::ArrayPtr<const Sensor> sensors) {
  Outputs<rpc::SensorReadingSpec> outputs(owner);
  for (auto& sensor : sensors) {
    bool fan = sensor.kind == Sensor::Kind::kFan;
    auto spec = outputs.add(sensor.id);
    spec.setChip(sensor.chip);
    spec.setDevice(sensor.device);
    spec.setLabel(sensor.label);
    spec.setKind(fan ? "fan" : "temperature");
    spec.setValue(sensor.value);
    spec.setUnit(fan ? "rpm" : "C");
    spec.setLow(sensor.low);
    spec.setHigh(sensor.high);
    spec.setCritical(sensor.critical);
    spec.setState(sensor.state);
  }
  outputs.apply(store);
}

void writeMemoryErrors(Store& store, kj::StringPtr owner, kj::ArrayPtr<const MemoryErrors> all) {
  Outputs<rpc::MemoryErrorCountSpec> outputs(owner);
  for (auto& errors : all) {
    auto spec = outputs.add(errors.id);
    spec.setController(errors.controller);
    spec.setModule(errors.module);
    spec.setSizeMiB(errors.mebibytes);
    spec.setCorrected(errors.corrected);
    spec.setUncorrected(errors.uncorrected);
  }
  outputs.apply(store);
}

class SensorsController final : public Controller {
 public:
  SensorsController(kj::Timer& timer, ReadPool& pool, kj::StringPtr sys)
      : timer(timer), interval(timer, kSensorInterval), pool(pool), sys(kj::str(sys)) {}

  kj::StringPtr name() const override { return "hardware.SensorsController"; }
  kj::Array<Input> inputs() const override { return nullptr; }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::SensorReadingSpec, rpc::MemoryErrorCountSpec>();
  }
  void wakeBy(kj::Function<void()> wake) override { interval.wakeBy(kj::mv(wake)); }
  kj::Promise<void> reconcile(Store& store) override {
    auto reading = pool.run(
        "reading the sensors",
        [sys = kj::str(sys)] { return Readings{readSensors(sys), readMemoryErrors(sys)}; },
        kSensors);
    Readings found;
    kj::Maybe<kj::Exception> failure;
    co_await within(timer, kReadingDeadline, kj::mv(reading), kj::str("a sensor does not answer"))
        .then([&](Readings&& all) { found = kj::mv(all); },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    writeSensors(store, name(), found.sensors);
    writeMemoryErrors(store, name(), found.errors);
    KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
    interval.begin();
  }

 private:
  kj::Timer& timer;
  Interval interval;
  ReadPool& pool;
  kj::String sys;
};

struct Answer {
  DiskToAsk disk;
  kj::Array<kj::byte> bytes;
  kj::String error;  // empty: there are bytes
};

kj::Array<kj::byte> ask(const DiskRequests& requests, const DiskToAsk& disk) {
  return disk.protocol == DiskToAsk::Protocol::kNvme ? requests.nvmeHealth(disk.name)
                                                     : requests.ataStatus(disk.name);
}

void fill(rpc::NvmeHealth::Builder out, const NvmeHealth& health) {
  out.setTemperature(health.temperature);
  out.setAvailableSpare(health.spare);
  out.setAvailableSpareThreshold(health.spareThreshold);
  out.setPercentageUsed(health.used);
  out.setBytesRead(health.bytesRead);
  out.setBytesWritten(health.bytesWritten);
  out.setPowerCycles(health.powerCycles);
  out.setPowerOnHours(health.powerOnHours);
  out.setUnsafeShutdowns(health.unsafeShutdowns);
  out.setMediaErrors(health.mediaErrors);
  out.setErrorLogEntries(health.errorLogEntries);
}

void fillNvme(rpc::DiskHealthSpec::Builder spec, kj::ArrayPtr<const kj::byte> page) {
  KJ_IF_MAYBE (health, decodeNvmeHealth(page)) {
    auto warnings = warningsOf(*health);
    spec.setHealth(warnings.empty() ? "passed" : "failing");
    spec.setWear(kj::str(unsigned(health->used), "%"));
    fillTexts(spec.initWarnings(warnings.size()), warnings);
    fill(spec.initNvme(), *health);
  } else {
    spec.setError("the disk's answer is not a health log");
  }
}

void fillAta(rpc::DiskHealthSpec::Builder spec, kj::ArrayPtr<const kj::byte> sense) {
  KJ_IF_MAYBE (verdict, decodeAtaVerdict(sense)) {
    bool passed = *verdict == AtaVerdict::kPassed;
    spec.setHealth(passed ? "passed" : "failing");
    if (!passed) spec.initWarnings(1).set(0, "an attribute has exceeded its threshold");
  } else {
    spec.setError("the disk's answer is not a SMART status; it may have SMART switched off");
  }
}

class DiskHealthController final : public Controller {
 public:
  DiskHealthController(kj::Timer& timer, ReadPool& pool, kj::Own<DiskRequests> requests,
                       kj::StringPtr sys)
      : timer(timer),
        interval(timer, kDiskHealthInterval),
        pool(pool),
        requests(kj::mv(requests)),
        sys(kj::str(sys)) {}

  kj::StringPtr name() const override { return "hardware.DiskHealthController"; }
  kj::Array<Input> inputs() const override { return kj::arr(input<rpc::DiscoveredVolumeSpec>()); }
  kj::Array<kj::StringPtr> outputs() const override { return typeNames<rpc::DiskHealthSpec>(); }
  void wakeBy(kj::Function<void()> wake) override { interval.wakeBy(kj::mv(wake)); }
  kj::Promise<void> reconcile(Store& store) override {
    auto disks = co_await pool.run(
        "looking for disks to ask", [sys = kj::str(sys)] { return disksToAsk(sys); }, kDisks);
    auto asked = kj::heapArrayBuilder<kj::Promise<Answer>>(disks.size());
    for (auto& disk : disks) asked.add(answerOf(kj::mv(disk)));
    auto answers = co_await kj::joinPromises(asked.finish());
    Outputs<rpc::DiskHealthSpec> outputs(name());
    for (auto& answer : answers) {
      bool nvme = answer.disk.protocol == DiskToAsk::Protocol::kNvme;
      auto spec = outputs.add(answer.disk.name);
      spec.setProtocol(nvme ? "NVMe" : "ATA");
      spec.setHealth("unknown");
      if (answer.error.size() > 0) {
        spec.setError(answer.error);
      } else if (nvme) {
        fillNvme(spec, answer.bytes);
      } else {
        fillAta(spec, answer.bytes);
      }
    }
    outputs.apply(store);
    interval.begin();
  }

 private:
  kj::Timer& timer;
  Interval interval;
  ReadPool& pool;
  kj::Own<DiskRequests> requests;
  kj::String sys;

  kj::Promise<Answer> answerOf(DiskToAsk disk) {
    Answer answer{.disk = kj::mv(disk), .bytes = nullptr, .error = kj::String()};
    auto asking = pool.run(
        kj::str("asking ", answer.disk.name, " for its health"),
        [requests = kj::addRef(*requests),
         disk = DiskToAsk{kj::str(answer.disk.name), answer.disk.protocol}] {
          return ask(*requests, disk);
        },
        clientOf(answer.disk.name));
    co_await within(timer, kReadingDeadline, kj::mv(asking), kj::str("the disk does not answer"))
        .then([&](kj::Array<kj::byte>&& bytes) { answer.bytes = kj::mv(bytes); },
              [&](kj::Exception&& e) { answer.error = messageOf(e); });
    co_return kj::mv(answer);
  }
};

}  // namespace

kj::Own<Controller> sensorsController(kj::Timer& timer, ReadPool& pool, kj::StringPtr sys) {
  return kj::heap<SensorsController>(timer, pool, sys);
}

kj::Own<Controller> diskHealthController(kj::Timer& timer, ReadPool& pool,
                                         kj::Own<DiskRequests> requests, kj::StringPtr sys) {
  return kj::heap<DiskHealthController>(timer, pool, kj::mv(requests), sys);
}

}  // namespace talos::machined
