#include "machined/crashes/crash-reports.h"

#include <capnp/serialize.h>
#include <kj/debug.h>
#include <string.h>
#include <zstd.h>

#include <algorithm>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/fill-list.h"
#include "common/base/folder.h"
#include "common/base/lines.h"
#include "common/text/ascii.h"
#include "machined/resources/store-records.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

using Spec = rpc::CrashReportSpec;
constexpr size_t kMostReportBytes = 128u << 10;
constexpr size_t kMostFiles = 256;  // further files are not read
constexpr size_t kMostCoreFile = 2u << 20;
constexpr kj::StringPtr kCoreSuffix = ".core.zst"_kj;

kj::String corePath(kj::StringPtr folder, kj::StringPtr id) {
  return kj::str(folder, "/", id, kCoreSuffix);
}

kj::Array<kj::byte> compressed(kj::ArrayPtr<const kj::byte> bytes) {
  auto out = kj::heapArray<kj::byte>(ZSTD_compressBound(bytes.size()));
  auto size = ZSTD_compress(out.begin(), out.size(), bytes.begin(), bytes.size(), 3);
  KJ_REQUIRE(!ZSTD_isError(size), ZSTD_getErrorName(size));
  return kj::heapArray<kj::byte>(out.slice(0, size));
}

// Returns 20261126T221647Z for 2026-11-26T22:16:47Z: its order as text is the order of time.
kj::String compact(kj::StringPtr time) {
  kj::Vector<char> out;
  for (char c : time) {
    if (c != '-' && c != ':') out.add(c);
  }
  return kj::heapString(out.begin(), out.size());
}

// Returns true for a name that a report may have, which is not a path.
bool isId(kj::StringPtr name) {
  constexpr size_t kLongest = 128;
  if (name.size() == 0 || name.size() > kLongest) return false;
  for (char c : name) {
    if (!isAlphanumeric(c) && c != '-') return false;
  }
  return true;
}

// Returns the last lines of a log that has just been written to.
kj::Vector<kj::String> lastLines(Logs& logs, kj::StringPtr service) {
  kj::Vector<kj::String> lines;
  logs.readWaiting(service);
  KJ_IF_MAYBE (ring, logs.ring(service)) {
    auto end = ring->newest();
    auto from = ring->tail(kMostLogLines);
    if (end - from > kMostLogBytes) from = ring->lineAt(end - kMostLogBytes);
    auto text = kj::heapArray<char>(end - from);
    ring->copy(from, text);
    for (auto line : Lines(text)) lines.add(kj::heapString(line));
  }
  return lines;
}

struct KeptReport {
  kj::String id;
  kj::Array<capnp::word> words;
  kj::Array<kj::byte> core;  // empty: no core, or already written
};

// Returns the id of a report or a core by its file name; empty for other files.
kj::ArrayPtr<const char> idOfFile(kj::StringPtr name) {
  if (name.endsWith(kCoreSuffix)) return name.slice(0, name.size() - kCoreSuffix.size());
  return name;
}

kj::Maybe<KeptReport> readReport(kj::StringPtr folder, kj::StringPtr id) {
  kj::Maybe<KeptReport> report;
  (void)kj::runCatchingExceptions([&]() {
    auto content = readFile(kj::str(folder, "/", id), kMostReportBytes);
    auto words = kj::heapArray<capnp::word>(content.size() / sizeof(capnp::word));
    memcpy(words.begin(), content.begin(), words.asBytes().size());
    capnp::FlatArrayMessageReader reader(words);
    auto spec = reader.getRoot<Spec>();
    // The whole report can be read, and belongs to the service of its name.
    KJ_REQUIRE(spec.totalSize().wordCount < kMostReportBytes / sizeof(capnp::word));
    KJ_REQUIRE(spec.getService().size() > 0 && id.startsWith(kj::str(spec.getService(), "-")));
    report = KeptReport{kj::str(id), kj::mv(words), nullptr};
  });
  return report;
}

kj::Vector<KeptReport> readReports(kj::StringPtr folder) {
  kj::Vector<KeptReport> reports;
  removeUnfinished(folder);
  for (auto& name : namesIn(folder, kMostFiles)) {
    if (!isId(name)) continue;
    KJ_IF_MAYBE (report, readReport(folder, name)) reports.add(kj::mv(*report));
  }
  return reports;
}

// Makes the folder hold these reports; files with names that no report has stay. A core is written
// before its report, which names it.
void writeReports(kj::StringPtr folder, kj::ArrayPtr<const KeptReport> reports) {
  makeDirectories(folder, 0700);
  auto isWanted = [&](kj::StringPtr id) {
    return std::any_of(reports.begin(), reports.end(), [&](auto& r) { return r.id == id; });
  };
  kj::Vector<kj::String> present;
  for (auto& name : namesIn(folder, kMostFiles)) {
    auto id = kj::heapString(idOfFile(name));
    if (isId(id) && !isWanted(id)) {
      removeDurably(kj::str(folder, "/", name));
    } else {
      present.add(kj::mv(name));
    }
  }
  for (auto& report : reports) {
    if (report.core.size() > 0) {
      writeFileAtomically(corePath(folder, report.id), compressed(report.core).asChars(), 0600);
    }
    if (std::find(present.begin(), present.end(), report.id) != present.end()) continue;
    writeFileAtomically(kj::str(folder, "/", report.id), report.words.asBytes().asChars(), 0600);
  }
}

}  // namespace

kj::String CrashReports::newId(kj::StringPtr service) const {
  auto id = kj::str(service, "-", compact(dateText(deps.clock.now())));
  if (deps.store.tryGet<Spec>(id) == nullptr) return id;
  for (unsigned n = 2;; ++n) {
    auto next = kj::str(id, "-", n);
    if (deps.store.tryGet<Spec>(next) == nullptr) return next;
  }
}

kj::String CrashReports::add(kj::StringPtr service, crash::CrashRecord record) {
  auto id = newId(service);
  auto log = lastLines(deps.logs, service);
  putRecord<Spec>(deps.store, id, [&](Spec::Builder spec) {
    spec.setService(service);
    spec.setSignal(crash::signalName(record.signal));
    spec.setTime(dateText(deps.clock.now()));
    spec.setUptime((deps.timer.now() - kj::origin<kj::TimePoint>()) / kj::SECONDS);
    spec.setVersion(deps.version);
    spec.setProgram(record.program);
    spec.setBuildId(record.buildId);
    spec.setPid(record.pid);
    KJ_IF_MAYBE (address, record.address) spec.setAddress(*address);
    spec.setSender(record.sender);
    spec.setProblem(record.problem);
    fillTexts(spec.initRegisters(record.registers.size()), record.registers);
    fillTexts(spec.initStack(record.frames.size()), record.frames);
    fillTexts(spec.initMap(record.map.size()), record.map);
    auto waits = KJ_MAP(wait, record.waits) {
      return kj::str(wait.text, ", since ", wait.ms, " ms");
    };
    fillTexts(spec.initWaits(waits.size()), waits);
    fillTexts(spec.initLog(log.size()), log);
    spec.setCore(record.core.size());
  });
  if (record.core.size() > 0) cores.insert(kj::str(id), kj::mv(record.core));
  added.add(kj::str(id));
  removeOldest(service);
  dirty = true;
  write();
  return id;
}

// Reports of earlier boots are ordered by the times in their ids, and all of them count as older
// than those of this boot: until the clock is set, it may be slow.
void CrashReports::removeOldest(kj::StringPtr service) {
  auto isAdded = [&](kj::StringPtr id) {
    return std::find(added.begin(), added.end(), id) != added.end();
  };
  kj::Vector<kj::String> ids;
  for (auto& report : deps.store.list<Spec>()) {
    if (report.getService() == service && !isAdded(report.id())) ids.add(kj::str(report.id()));
  }
  kj::Vector<kj::String> still;
  for (auto& id : added) {
    KJ_IF_MAYBE (report, deps.store.tryGet<Spec>(id)) {
      if (report->getService() == service) ids.add(kj::str(id));
      still.add(kj::mv(id));
    }
  }
  added = kj::mv(still);
  for (size_t i = 0; i + kMostReports < ids.size(); ++i) drop(ids[i]);
}

void CrashReports::drop(kj::StringPtr id) {
  dropRecord<Spec>(deps.store, id);
  cores.erase(id);
}

void CrashReports::requireReachable(kj::StringPtr report) {
  if (deps.store.tryGet<Spec>(report) == nullptr) {
    fail(ErrorKind::kNotFound, kj::str("there is no crash report \"", report, "\""));
  }
  if (begun && deps.mounted()) return;
  fail(ErrorKind::kUnavailable, "crash reports are on STATE, which is not mounted");
}

kj::Promise<kj::Array<kj::byte>> CrashReports::core(kj::StringPtr report) {
  auto id = kj::str(report);
  requireReachable(id);
  co_await written();
  auto content = co_await deps.uv.blocking(
      [path = corePath(deps.folder, id)]() { return tryReadFile(path, kMostCoreFile); });
  KJ_IF_MAYBE (bytes, content) co_return kj::heapArray<kj::byte>(bytes->asBytes());
  fail(ErrorKind::kNotFound, kj::str("the crash report \"", id, "\" has no core; `talosctl debug ",
                                     "cores` says whose are kept"));
}

kj::Promise<void> CrashReports::remove(kj::StringPtr report) {
  requireReachable(report);
  drop(report);
  dirty = true;
  write();
  co_await written();
}

kj::Promise<void> CrashReports::begin() {
  try {
    auto reports = co_await deps.uv.blocking(
        [folder = kj::str(deps.folder)]() { return readReports(folder); });
    kj::Vector<kj::String> services;
    for (auto& report : reports) {
      capnp::FlatArrayMessageReader reader(report.words);
      auto spec = reader.getRoot<Spec>();
      // The record of the store may be newer; otherwise it is the same.
      if (deps.store.tryGet<Spec>(report.id) != nullptr) continue;
      copyRecord<Spec>(deps.store, report.id, spec);
      services.add(kj::str(spec.getService()));
    }
    for (auto& service : services) removeOldest(service);
  } catch (...) {
    auto failure = kj::getCaughtExceptionAsKj();
    deps.say(kj::str("warning: cannot read the crash reports: ", messageOf(failure)));
  }
  begun = true;
  dirty = true;
  write();
}

void CrashReports::write() {
  if (!begun || busy) return;
  busy = true;
  writing = kj::evalLater([this]() { return writeAll(); })
                .catch_([this](kj::Exception&& e) {
                  busy = false;
                  deps.say(kj::str("warning: cannot keep a crash report: ", messageOf(e)));
                })
                .fork();
}

kj::Promise<void> CrashReports::writeAll() {
  while (dirty && deps.mounted()) {
    dirty = false;
    kj::Vector<KeptReport> all;
    for (auto& report : deps.store.list<Spec>()) {
      capnp::MallocMessageBuilder message;
      message.setRoot(static_cast<Spec::Reader>(report));
      kj::Array<kj::byte> core;
      KJ_IF_MAYBE (bytes, cores.find(report.id())) core = kj::mv(*bytes);
      cores.erase(report.id());
      all.add(KeptReport{kj::str(report.id()), capnp::messageToFlatArray(message), kj::mv(core)});
    }
    co_await deps.uv.blocking(
        [folder = kj::str(deps.folder), all = kj::mv(all)]() { writeReports(folder, all); });
  }
  busy = false;
}

}  // namespace talos::machined
