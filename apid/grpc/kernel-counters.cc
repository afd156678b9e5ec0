#include "apid/grpc/kernel-counters.h"

#include "common/base/lines.h"

namespace talos::grpcapi {
namespace {

// The ticks of /proc/stat, a second each hundred: a number of the kernel's interface.
constexpr double kTicks = 100;

kj::Vector<kj::String> splitFields(kj::ArrayPtr<const char> line) {
  kj::Vector<kj::String> fields;
  for (size_t at = 0; at < line.size();) {
    auto isSpace = [&]() { return line[at] == ' ' || line[at] == '\t'; };
    while (at < line.size() && isSpace()) ++at;
    auto from = at;
    while (at < line.size() && !isSpace()) ++at;
    if (at > from) fields.add(kj::heapString(line.slice(from, at)));
  }
  return fields;
}

uint64_t counted(kj::ArrayPtr<const kj::String> fields, size_t index) {
  return index < fields.size() ? fields[index].tryParseAs<uint64_t>().orDefault(0) : 0;
}

void addNumber(WireWriter& out, uint32_t number, uint64_t value) {
  if (value != 0) out.varint(number, value);
}

void addDouble(WireWriter& out, uint32_t number, double value) {
  if (value != 0) out.fixed64(number, bitsOf(value));
}

// A device's name and what is counted of it, from field 1 on.
class Devices {
 public:
  explicit Devices(size_t counters) : totals(kj::heapArray<uint64_t>(counters)) {
    for (auto& total : totals) total = 0;
  }
  void add(kj::StringPtr name, kj::ArrayPtr<const kj::String> values) {
    WireWriter device;
    device.text(1, name);
    for (auto i : kj::indices(totals)) {
      auto value = counted(values, i);
      addNumber(device, i + 2, value);
      totals[i] += value;
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
  kj::Array<uint64_t> totals;
  WireWriter all;
};

void addProcessor(WireWriter& out, uint32_t number, kj::ArrayPtr<const kj::String> values) {
  constexpr size_t kTimes = 10;
  WireWriter times;
  for (size_t i = 0; i < kTimes; ++i) addDouble(times, i + 1, counted(values, i) / kTicks);
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

void addInfo(WireWriter& out, uint32_t number, kj::StringPtr value) {
  switch (number) {
    case 1:
    case 11:
    case 13:
    case 18:
    case 23:
    case 24:
      return addNumber(out, number, value.tryParseAs<uint32_t>().orDefault(0));
    case 8:
    case 22:
      return addDouble(out, number, value.tryParseAs<double>().orDefault(0));
    case 20:
    case 21:
      for (auto& field : splitFields(value)) out.text(number, field);
      return;
    default:
      if (value.size() > 0) out.text(number, value);
  }
}

kj::ArrayPtr<const char> trimmed(kj::ArrayPtr<const char> text) {
  while (text.size() > 0 && (text.front() == ' ' || text.front() == '\t')) {
    text = text.slice(1, text.size());
  }
  while (text.size() > 0 && (text.back() == ' ' || text.back() == '\t')) {
    text = text.slice(0, text.size() - 1);
  }
  return text;
}

// The index of the colon; the size when there is none.
size_t colonIn(kj::ArrayPtr<const char> line) {
  size_t at = 0;
  while (at < line.size() && line[at] != ':') ++at;
  return at;
}

}  // namespace

kj::Array<kj::byte> loadAverage(kj::ArrayPtr<const char> text) {
  WireWriter out;
  auto fields = splitFields(firstLine(text));
  for (uint32_t i = 0; i < 3 && i < fields.size(); ++i) {
    addDouble(out, i + 2, fields[i].tryParseAs<double>().orDefault(0));
  }
  return out.finish();
}

kj::Array<kj::byte> systemStat(kj::ArrayPtr<const char> text) {
  constexpr struct {
    kj::StringPtr key;
    uint32_t number;
  } kPlain[] = {{"btime"_kj, 2},
                {"ctxt"_kj, 7},
                {"processes"_kj, 8},
                {"procs_running"_kj, 9},
                {"procs_blocked"_kj, 10}};
  WireWriter out;
  for (auto line : Lines(text)) {
    auto fields = splitFields(line);
    if (fields.size() < 2) continue;
    auto& key = fields[0];
    auto values = fields.slice(1, fields.size());
    for (auto& plain : kPlain) {
      if (key == plain.key) addNumber(out, plain.number, counted(values, 0));
    }
    if (key.startsWith("cpu")) addProcessor(out, key == "cpu" ? 3 : 4, values);
    if (key == "intr") {
      WireWriter each;
      addNumber(out, 5, counted(values, 0));
      for (size_t i = 1; i < values.size(); ++i) each.bareVarint(counted(values, i));
      out.bytes(6, each.written());
    }
    if (key == "softirq") {
      WireWriter each;
      addNumber(out, 11, counted(values, 0));
      for (size_t i = 1; i <= 10; ++i) addNumber(each, i, counted(values, i));
      out.bytes(12, each.written());
    }
  }
  return out.finish();
}

kj::Array<kj::byte> processorInfo(kj::ArrayPtr<const char> text) {
  WireWriter out;
  kj::Maybe<WireWriter> current;
  auto finish = [&]() {
    KJ_IF_MAYBE (info, current) out.bytes(2, info->written());
    current = nullptr;
  };
  for (auto line : Lines(text)) {
    auto colon = colonIn(line);
    if (colon == line.size()) continue;
    auto key = kj::heapString(trimmed(line.slice(0, colon)));
    auto value = kj::heapString(trimmed(line.slice(colon + 1, line.size())));
    if (key == kInfoKeys[0]) {
      finish();
      current.emplace();
    }
    KJ_IF_MAYBE (info, current) {
      for (auto i : kj::indices(kInfoKeys)) {
        if (kInfoKeys[i] == key) addInfo(*info, i + 1, value);
      }
    }
  }
  finish();
  return out.finish();
}

kj::Array<kj::byte> networkStats(kj::ArrayPtr<const char> text) {
  constexpr size_t kCounters = 16;
  Devices devices(kCounters);
  for (auto line : Lines(text)) {
    auto colon = colonIn(line);
    if (colon == line.size()) continue;  // a heading
    auto values = splitFields(line.slice(colon + 1, line.size()));
    if (values.size() < kCounters) continue;
    devices.add(kj::heapString(trimmed(line.slice(0, colon))), values);
  }
  return devices.finish("Total");
}

kj::Array<kj::byte> diskStats(kj::ArrayPtr<const char> text) {
  constexpr size_t kCounters = 15, kName = 2;
  Devices devices(kCounters);
  for (auto line : Lines(text)) {
    auto fields = splitFields(line);
    if (fields.size() < kName + 1 + kCounters) continue;
    devices.add(fields[kName], fields.slice(kName + 1, fields.size()));
  }
  return devices.finish("");
}

kj::Array<kj::byte> frequencies(capnp::List<rpc::CounterFile>::Reader files) {
  constexpr kj::StringPtr kNumbers[] = {"scaling_cur_freq"_kj, "scaling_min_freq"_kj,
                                        "scaling_max_freq"_kj};
  constexpr uint32_t kGovernor = 4;
  WireWriter out, processor;
  kj::Maybe<kj::ArrayPtr<const char>> folder;  // of the processor
  auto finish = [&]() {
    if (folder != nullptr) out.bytes(2, processor.written());
    processor = WireWriter();
  };
  for (auto file : files) {
    kj::StringPtr path = file.getPath();
    auto slash = path.findLast('/').orDefault(0);
    auto name = path.slice(kj::min(slash + 1, path.size()));
    auto fileFolder = path.slice(0, slash);
    if (folder.orDefault(nullptr) != fileFolder) {
      finish();
      folder = fileFolder;
    }
    auto value = kj::heapString(firstLine(file.getText().asArray()));
    for (auto i : kj::indices(kNumbers)) {
      if (name == kNumbers[i])
        addNumber(processor, i + 1, value.tryParseAs<uint64_t>().orDefault(0));
    }
    if (name == "scaling_governor") processor.text(kGovernor, value);
  }
  finish();
  return out.finish();
}

}  // namespace talos::grpcapi
