#include "apid/grpc/kernel-counters.h"

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/text/ascii.h"
#include "common/text/fields.h"

namespace talos::grpcapi {
namespace {

// Ticks of /proc/stat in a second: a constant of the kernel's interface.
constexpr double kTicks = 100;
// Limit of the text of one kind of counters: /proc/cpuinfo of two thousand processors has 3 MiB,
// and nodes send no more (machined/api/counter-files.cc).
constexpr size_t kMostText = 4u << 20;
// Limits for the largest machines: processors, devices, files; and interrupts in one line.
constexpr size_t kMostMessages = 16u << 10, kMostInterrupts = 64u << 10;

using Text = kj::ArrayPtr<const char>;

// Counts the data that a node has sent. Throws ResourceExhausted.
class Limited {
 public:
  Limited(kj::StringPtr what, size_t most) : what(what), most(most) {}
  void add() {
    if (++count <= most) return;
    fail(ErrorKind::kResourceExhausted,
         kj::str("the node has sent more than ", most, " ", what, "; no more are read"));
  }

 private:
  kj::StringPtr what;
  const size_t most;
  size_t count = 0;
};

Text checked(Text text) {
  if (text.size() > kMostText) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("the node has sent ", text.size(), " bytes of counters; at most ", kMostText,
                 " are read"));
  }
  return text;
}

bool is(Text text, kj::StringPtr other) {
  return text == other.asArray();
}

void addNumber(WireWriter& out, uint32_t number, uint64_t value) {
  if (value != 0) out.varint(number, value);
}

void addDouble(WireWriter& out, uint32_t number, double value) {
  if (value != 0) out.fixed64(number, bitsOf(value));
}

// A list of devices: the name and the counters of each, from field 1 on.
class Devices {
 public:
  explicit Devices(size_t counters)
      : totals(kj::heapArray<uint64_t>(counters)), values(kj::heapArray<uint64_t>(counters)) {
    for (auto& total : totals) total = 0;
  }
  // Adds a device, unless it has too few values.
  void add(Text name, Fields fields) {
    for (auto& value : values) {
      auto field = fields.next();
      if (field.size() == 0) return;
      value = numberIn<uint64_t>(field);
    }
    limit.add();
    WireWriter device;
    device.chars(1, name);
    for (auto i : kj::indices(totals)) {
      addNumber(device, i + 2, values[i]);
      totals[i] += values[i];
    }
    all.bytes(3, device.written());
  }
  kj::Array<kj::byte> finish(kj::StringPtr totalName) {
    WireWriter total, out;
    if (totalName.size() > 0) total.text(1, totalName);
    for (auto i : kj::indices(totals)) addNumber(total, i + 2, totals[i]);
    out.bytes(2, total.written());
    out.append(all.written());
    return out.finish();
  }

 private:
  kj::Array<uint64_t> totals, values;
  WireWriter all;
  Limited limit{"devices", kMostMessages};
};

void addProcessor(WireWriter& out, uint32_t number, Fields fields) {
  constexpr size_t kTimes = 10;
  WireWriter times;
  for (size_t i = 0; i < kTimes; ++i) {
    addDouble(times, i + 1, numberIn<uint64_t>(fields.next()) / kTicks);
  }
  out.bytes(number, times.written());
}

// The keys of /proc/cpuinfo in the order of CPUInfo's numbers, from 1.
constexpr kj::StringPtr kInfoKeys[] = {"processor"_kj,
                                       "vendor_id"_kj,
                                       "cpu family"_kj,
                                       "model"_kj,
                                       "model name"_kj,
                                       "stepping"_kj,
                                       "microcode"_kj,
                                       "cpu MHz"_kj,
                                       "cache size"_kj,
                                       "physical id"_kj,
                                       "siblings"_kj,
                                       "core id"_kj,
                                       "cpu cores"_kj,
                                       "apicid"_kj,
                                       "initial apicid"_kj,
                                       "fpu"_kj,
                                       "fpu_exception"_kj,
                                       "cpuid level"_kj,
                                       "wp"_kj,
                                       "flags"_kj,
                                       "bugs"_kj,
                                       "bogomips"_kj,
                                       "clflush size"_kj,
                                       "cache_alignment"_kj,
                                       "address sizes"_kj,
                                       "power management"_kj};
static_assert(kj::size(kInfoKeys) == 26);

void addInfo(WireWriter& out, uint32_t number, Text value) {
  switch (number) {
    case 1:
    case 11:
    case 13:
    case 18:
    case 23:
    case 24:
      return addNumber(out, number, numberIn<uint32_t>(value));
    case 8:
    case 22:
      return addDouble(out, number, numberIn<double>(value));
    case 20:
    case 21:
      for (Fields fields(value);;) {
        auto field = fields.next();
        if (field.size() == 0) return;
        out.chars(number, field);
      }
    default:
      if (value.size() > 0) out.chars(number, value);
  }
}

// Returns the index of the colon; the line's size if it has no colon.
size_t colonIn(Text line) {
  size_t at = 0;
  while (at < line.size() && line[at] != ':') ++at;
  return at;
}

}  // namespace

kj::Array<kj::byte> loadAverage(Text text) {
  WireWriter out;
  for (auto line : Lines(checked(text))) {
    Fields fields(line);
    for (uint32_t i = 0; i < 3; ++i) addDouble(out, i + 2, numberIn<double>(fields.next()));
    break;
  }
  return out.finish();
}

namespace {

// Adds the first value, and then all others in one field.
void addInterrupts(WireWriter& out, Fields fields) {
  addNumber(out, 5, numberIn<uint64_t>(fields.next()));
  WireWriter each;
  Limited limit("interrupts", kMostInterrupts);
  for (;;) {
    auto field = fields.next();
    if (field.size() == 0) break;
    limit.add();
    each.bareVarint(numberIn<uint64_t>(field));
  }
  out.bytes(6, each.written());
}

void addSoftInterrupts(WireWriter& out, Fields fields) {
  addNumber(out, 11, numberIn<uint64_t>(fields.next()));
  WireWriter each;
  for (size_t i = 1; i <= 10; ++i) addNumber(each, i, numberIn<uint64_t>(fields.next()));
  out.bytes(12, each.written());
}

}  // namespace

kj::Array<kj::byte> systemStat(Text text) {
  constexpr struct {
    kj::StringPtr key;
    uint32_t number;
  } kPlain[] = {{"btime"_kj, 2},
                {"ctxt"_kj, 7},
                {"processes"_kj, 8},
                {"procs_running"_kj, 9},
                {"procs_blocked"_kj, 10}};
  constexpr auto kProcessor = "cpu"_kj;
  WireWriter out;
  Limited limit("lines of counters", kMostMessages);
  for (auto line : Lines(checked(text))) {
    Fields fields(line);
    auto key = fields.next();
    if (Fields(fields).next().size() == 0) continue;
    limit.add();
    for (auto& plain : kPlain) {
      if (is(key, plain.key)) addNumber(out, plain.number, numberIn<uint64_t>(fields.next()));
    }
    if (key.size() >= kProcessor.size() && is(key.slice(0, kProcessor.size()), kProcessor)) {
      addProcessor(out, is(key, kProcessor) ? 3 : 4, fields);
    }
    if (is(key, "intr")) addInterrupts(out, fields);
    if (is(key, "softirq")) addSoftInterrupts(out, fields);
  }
  return out.finish();
}

kj::Array<kj::byte> processorInfo(Text text) {
  WireWriter out;
  kj::Maybe<WireWriter> current;
  Limited limit("processors", kMostMessages);
  auto finish = [&]() {
    KJ_IF_MAYBE (info, current) out.bytes(2, info->written());
    current = nullptr;
  };
  for (auto line : Lines(checked(text))) {
    auto colon = colonIn(line);
    if (colon == line.size()) continue;
    auto key = trimmed(line.slice(0, colon));
    auto value = trimmed(line.slice(colon + 1, line.size()));
    if (is(key, kInfoKeys[0])) {
      finish();
      limit.add();
      current.emplace();
    }
    KJ_IF_MAYBE (info, current) {
      for (auto i : kj::indices(kInfoKeys)) {
        if (is(key, kInfoKeys[i])) addInfo(*info, i + 1, value);
      }
    }
  }
  finish();
  return out.finish();
}

kj::Array<kj::byte> networkStats(Text text) {
  constexpr size_t kCounters = 16;
  Devices devices(kCounters);
  for (auto line : Lines(checked(text))) {
    KJ_IF_MAYBE (link, namedFields(line)) devices.add(link->name, link->fields);
  }
  return devices.finish("Total");
}

kj::Array<kj::byte> diskStats(Text text) {
  constexpr size_t kCounters = 15;
  Devices devices(kCounters);
  for (auto line : Lines(checked(text))) {
    Fields fields(line);
    fields.next();  // major number
    fields.next();  // minor number
    auto name = fields.next();
    devices.add(name, fields);
  }
  return devices.finish("");
}

kj::Array<kj::byte> frequencies(capnp::List<rpc::CounterFile>::Reader files) {
  constexpr kj::StringPtr kNumbers[] = {"scaling_cur_freq"_kj, "scaling_min_freq"_kj,
                                        "scaling_max_freq"_kj};
  constexpr uint32_t kGovernor = 4;
  WireWriter out, processor;
  Limited limit("files", 4 * kMostMessages);
  kj::Maybe<Text> folder;  // folder of the current processor
  auto finish = [&]() {
    if (folder != nullptr) out.bytes(2, processor.written());
    processor = WireWriter();
  };
  for (auto file : files) {
    limit.add();
    kj::StringPtr path = file.getPath();
    auto slash = path.findLast('/').orDefault(0);
    auto name = path.slice(kj::min(slash + 1, path.size()));
    auto fileFolder = path.slice(0, slash);
    if (folder.orDefault(nullptr) != fileFolder) {
      finish();
      folder = fileFolder;
    }
    Text value = checked(file.getText().asArray());
    for (auto line : Lines(value)) {
      value = line;
      break;
    }
    for (auto i : kj::indices(kNumbers)) {
      if (name == kNumbers[i]) addNumber(processor, i + 1, numberIn<uint64_t>(value));
    }
    if (name == "scaling_governor") processor.chars(kGovernor, value);
  }
  finish();
  return out.finish();
}

}  // namespace talos::grpcapi
