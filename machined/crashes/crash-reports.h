// Reports of crashes: for each program of this system that ended by the signal of a fault, a
// resource CrashReports/<service>-<time>, and the same on STATE, so that it outlives a reboot.
//
//   /system/state/crashes/<id>            the spec of the resource, as a Cap'n Proto message
//   /system/state/crashes/<id>.core.zst   its core, if one was kept: less than 1 MiB, compressed
//
// Both have mode 0600.
//
// The newest kMostReports of each service are kept, each with kMostLogLines lines of its log and at
// most kMostLogBytes of them: a service that crashes in a loop fills neither the store nor STATE. A
// report is in the store (which outlives the brain) before the service starts again; it is written
// as soon as STATE is mounted. A crash of the brain or a power cut in between loses no written
// report, and a brain writes those that its predecessor did not. A disk that fails is reported, and
// retried with the next report. A core is in memory until it is written, and is removed with its
// report: a brain that dies before the write loses it, and a request for a missing core is answered
// with this reason. Files are read defensively; a file that is not a report is removed.
#pragma once

#include <kj/map.h>
#include <kj/timer.h>

#include "common/crash/crash-record.h"
#include "machined/logs/log-store.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/store.h"
#include "machined/services/services-server.h"

namespace talos::machined {

constexpr kj::StringPtr kCrashesFolder = "/system/state/crashes"_kj;
constexpr size_t kMostReports = 3;
constexpr unsigned kMostLogLines = 50;
constexpr size_t kMostLogBytes = 16u << 10;

class CrashReports final : public CrashArchive {
 public:
  struct Dependencies {
    UvLoop& uv;
    kj::Timer& timer;
    const kj::Clock& clock;
    Logs& logs;
    Store& store;
    kj::String version;
    kj::Function<void(kj::StringPtr line)> say;
    kj::Function<bool()> mounted;  // STATE is mounted and can be written
    kj::StringPtr folder = kCrashesFolder;
  };
  explicit CrashReports(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(CrashReports);

  // Returns the id of the report.
  kj::String add(kj::StringPtr service, crash::CrashRecord record);

  kj::Promise<kj::Array<kj::byte>> core(kj::StringPtr report) override;
  kj::Promise<void> remove(kj::StringPtr report) override;

  // Runs when STATE is mounted: puts its reports into the store, and writes the others. Does not
  // reject.
  kj::Promise<void> begin();

  // Resolves when everything that can be written now is on the disk, or has failed.
  kj::Promise<void> written() { return writing.addBranch(); }

 private:
  Dependencies deps;
  bool begun = false;
  bool dirty = false;  // a report is not on the disk yet
  kj::ForkedPromise<void> writing = kj::Promise<void>(kj::READY_NOW).fork();
  bool busy = false;

  kj::Vector<kj::String> added;                        // by this brain, oldest first
  kj::TreeMap<kj::String, kj::Array<kj::byte>> cores;  // not written yet, by report

  kj::String newId(kj::StringPtr service) const;
  void requireReachable(kj::StringPtr report);
  void drop(kj::StringPtr id);
  void removeOldest(kj::StringPtr service);
  void write();
  kj::Promise<void> writeAll();
};

}  // namespace talos::machined
