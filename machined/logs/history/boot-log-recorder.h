// Keeps the logs of this boot on STATE (boot-log-store.h), so that they can be read after the next
// boot: the lines of all logs, the audit log among them, the events, and the reason why the machine
// shut down.
//
// The rings that process 1 holds are the buffer: every two seconds, and when the machine shuts
// down, new lines are written and synced, from the position at which the files end. So a crash of
// the brain neither loses nor doubles a line; a power cut loses two seconds. The reason of a reboot
// is on the disk before the services are stopped. A boot that ended without a reason was cut off:
// if the machine keeps the kernel's crash log (pstore), the log shows the cause and is moved into
// the boot's record.
//
// Each boot is the resource BootRecords/<boot id>. Without a STATE nothing is kept, and one log
// line says so. A disk that fails is reported and retried; a disk that does not answer within 10 s
// is reported, and nothing waits for it any longer: neither the boot, nor a new brain, nor the
// machine's shutdown.
#pragma once

#include <kj/timer.h>

#include <memory>

#include "machined/logs/event-ring.h"
#include "machined/logs/history/boot-log-store.h"
#include "machined/logs/history/issued-certificate-log.h"
#include "machined/logs/history/kernel-crash-log.h"
#include "machined/logs/log-store.h"
#include "machined/process1/read-pool.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/store.h"

namespace talos::machined {

constexpr auto kRecordPause = 2 * kj::SECONDS;

class BootRecorder final {
 public:
  struct Dependencies {
    UvLoop& uv;
    kj::Timer& timer;
    const kj::Clock& clock;
    Logs& logs;
    Events& events;
    Store& store;
    kj::String bootId, version;
    kj::Function<void(kj::StringPtr line)> say;
    kj::StringPtr folder = kBootsFolder;
    // "": no folder. In a container the firmware's records are the host's, and the host reads and
    // removes them.
    kj::StringPtr pstore = kPstoreFolder;
    kj::StringPtr issuedFile = kIssuedFile;
    // Opens other records on STATE: called when STATE is known to be mounted. Does not reject.
    kj::Function<kj::Promise<void>()> opened = []() { return kj::READY_NOW; };
  };
  explicit BootRecorder(Dependencies deps);
  ~BootRecorder() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(BootRecorder);

  // Called when it is known if there is a STATE. Does not throw; a second call does nothing.
  kj::Promise<void> begin(bool kept);
  // Writes the reason why the machine shuts down; it is on disk when this resolves.
  kj::Promise<void> reason(kj::String problem);
  // Writes the end of this boot's logs and closes the files. Does not throw.
  kj::Promise<void> end();

  // Reads a log of an earlier boot; "" is the previous one. Throws NotFound if there is no such
  // boot or log. It is read on the clients' pool, because the call is a client's. `contains`: only
  // lines with this text, and `tailLines` of them.
  kj::Promise<void> readLog(ReadPool::Client pool, kj::String id, kj::String boot, int tailLines,
                            rpc::LogSink::Client sink, kj::String contains = nullptr);
  kj::Promise<void> readEvents(ReadPool::Client pool, kj::String boot, rpc::EventSink::Client sink);

 private:
  struct Shared;  // shared with the jobs in the thread pool
  struct Piece;
  Dependencies deps;
  std::shared_ptr<Shared> shared;
  bool decided = false, recording = false, ending = false;
  bool begun = false;    // the folder exists
  IssuedRecords issued;  // the other records that outlive the boot
  kj::TreeMap<kj::String, uint64_t> cursors;
  kj::String lastReported;
  kj::Own<kj::PromiseFulfiller<void>> stop;
  kj::ForkedPromise<void> stopped = nullptr;
  kj::Promise<void> regularly = kj::READY_NOW;

  template <typename F>
  auto job(F&& work);
  kj::Promise<void> first();
  kj::Promise<void> recordOn(kj::Own<kj::PromiseFulfiller<void>> opened);
  kj::Promise<void> writeLast();
  kj::Promise<bool> flush();
  kj::Promise<void> findCursors();
  kj::Vector<kj::String> sources() const;
  kj::Maybe<const LogRing&> ringOf(kj::StringPtr source) const;
  kj::Vector<Piece> collect();
  void publish(kj::ArrayPtr<const BootSummary> boots);
  kj::Promise<kj::String> textOf(ReadPool::Client pool, kj::String boot, kj::String source);
  void complain(kj::Exception&& e);
};

}  // namespace talos::machined
