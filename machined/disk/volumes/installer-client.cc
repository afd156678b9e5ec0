#include "machined/disk/volumes/installer-client.h"

#include <capnp/message.h>
#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/within.h"
#include "machined/confined/frames/frame-stream.h"
#include "machined/confined/parser-client/confined-process.h"

namespace talos::machined {
namespace {

// Limit from one message to the next: the longest silence is while a file system is made on a large
// disk. A wipe, which may take a day, reports its progress each minute.
constexpr auto kSilence = 10 * kj::MINUTES;
constexpr size_t kMostAnswerWords = 8192;

kj::Vector<kj::String> commandOf(kj::StringPtr confine, kj::StringPtr program) {
  kj::Vector<kj::String> argv;
  argv.add(kj::str(confine));
  argv.add(kj::str("--uid=0"));
  argv.add(kj::str("--capabilities=sys_admin"));  // mounts and partition tables
  argv.add(kj::str("--seccomp=installer"));
  argv.add(kj::str("--rlimit=core=0"));
  argv.add(kj::str("--lifetime=", getpid()));
  argv.add(kj::str("--output=none"));
  argv.add(kj::str("--"));
  argv.add(kj::str(program));
  return argv;
}

}  // namespace

kj::Promise<void> Installer::format(kj::String device, kj::String label, uint64_t empty) {
  return run([device = kj::mv(device), label = kj::mv(label),
              empty](rpc::InstallRequest::Builder request) {
           auto format = request.initFormat();
           format.setDevice(device);
           format.setLabel(label);
           format.setEmpty(empty);
         })
      .ignoreResult();
}

kj::Promise<void> Installer::clear(kj::String device, uint64_t bytes) {
  return run([device = kj::mv(device), bytes](rpc::InstallRequest::Builder request) {
           auto clear = request.initClear();
           clear.setDevice(device);
           clear.setBytes(bytes);
         })
      .ignoreResult();
}

void RealInstaller::taskFailed(kj::Exception&& e) {
  KJ_LOG(ERROR, "cannot reap the installer", e);
}

kj::Promise<void> RealInstaller::converse(kj::AsyncIoStream& stream, kj::Array<capnp::word> request,
                                          Answered& answered, Progress& progress) {
  co_await writeFrame(stream, request);
  for (;;) {
    auto words = co_await within(
        io.provider->getTimer(), kSilence, readFrame(stream, kMostAnswerWords),
        kj::str("the installer said nothing for ", kSilence / kj::MINUTES, " minutes"));
    capnp::FlatArrayMessageReader message(words, readerOptions(words.size()));
    auto answer = message.getRoot<rpc::InstallAnswer>();
    if (answer.isFailed()) fail(ErrorKind::kFailedPrecondition, answer.getFailed());
    if (answer.isProgress()) {
      progress(answer.getProgress());
      continue;
    }
    co_return answered(answer);
  }
}

kj::Promise<bool> RealInstaller::run(Fill fill) {
  return run(kj::mv(fill), [this](kj::StringPtr line) { say(line); });
}

kj::Promise<bool> RealInstaller::run(Fill fill, Progress progress) {
  bool changed = false;
  co_await ask(
      kj::mv(fill),
      [&](rpc::InstallAnswer::Reader answer) {
        KJ_REQUIRE(answer.isDone(), "not a valid answer");
        changed = answer.getDone();
      },
      -1, progress);
  co_return changed;
}

kj::Promise<void> RealInstaller::slots(Fill fill, Hear hear, int archive) {
  co_await ask(
      kj::mv(fill),
      [&](rpc::InstallAnswer::Reader answer) {
        KJ_REQUIRE(answer.isSlots(), "not a valid answer");
        hear(answer.getSlots());
      },
      archive, say);
}

// A disk that is wiped is not looked at, because its content may be lost.
kj::Promise<void> RealInstaller::fillFound(rpc::InstallRequest::Builder request) {
  kj::String disk;
  if (request.isWrite() && !request.getWrite().getWipe()) {
    disk = kj::str(request.getWrite().getDisk());
  } else if (request.isDivide()) {
    disk = kj::str(request.getDivide().getDisk());
  } else if (request.isAddPartition()) {
    disk = kj::str(request.getAddPartition().getDisk());
  } else {
    co_return;
  }
  auto found = co_await look(disk);
  auto out = request.initFound();
  KJ_IF_MAYBE (table, found.table) out.setTable(*table);
  fillTexts(out.initPartitions(static_cast<unsigned>(found.partitions.size())), found.partitions);
  auto volumes = out.initVolumes(static_cast<unsigned>(found.volumes.size()));
  for (auto i : kj::indices(found.volumes)) {
    volumes[i].setType(found.volumes[i].type);
    volumes[i].setLabel(found.volumes[i].label);
  }
}

kj::Promise<void> RealInstaller::ask(Fill fill, Answered answered, int archive,
                                     Progress& progress) {
  capnp::MallocMessageBuilder message;
  auto request = message.initRoot<rpc::InstallRequest>();
  fill(request);
  co_await fillFound(request);
  auto child = kj::heap<ConfinedChild>(io, commandOf(confine, program), archive);
  auto& stream = child->stream();
  kj::Maybe<kj::Own<ConfinedChild>> left = kj::mv(child);
  KJ_DEFER({
    KJ_IF_MAYBE (c, left) reaping.add(ConfinedChild::end(kj::mv(*c)).ignoreResult());
  });
  bool gone = false;
  co_await converse(stream, frameOf(message), answered, progress).catch_([&](kj::Exception&& e) {
    gone = e.getType() == kj::Exception::Type::DISCONNECTED;
    if (!gone) kj::throwFatalException(kj::mv(e));
  });
  if (gone) {
    auto ending = ConfinedChild::end(kj::mv(KJ_ASSERT_NONNULL(left)));
    left = nullptr;
    fail(ErrorKind::kInternal, kj::str("the installer ended without an answer: ", co_await ending));
  }
}

}  // namespace talos::machined
