// The brain's side of the program that writes to the system disk (machined/disk/installer).
//
// The brain is root and holds every secret. So the code that changes partition tables and makes
// file systems runs in a short-lived child that may only use disks and mount; it gets one request,
// reports its progress and ends. A system call filter keeps it from the network and from other
// processes; it reads in steps that Landlock confines to the one disk
// (machined/disk/installer/confinement.h). Content that another system has left on a disk is read
// by yet another process, which can do nothing else; this class requests that before an
// installation and before a disk is divided. The child dies with the brain: the next brain repeats
// interrupted work (machined/disk/installer/system-installation.h describes the disk at that
// point).
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "common/base/node-layout.h"
#include "machined/confined/parser-client/foreign-bytes.h"
#include "rpc/install.capnp.h"

namespace talos::machined {

constexpr int kInstallerRequestFd = 3, kInstallerArchiveFd = 4;

class Installer {
 public:
  virtual ~Installer() noexcept(false) = default;
  // Runs the program with one request; resolves with true if anything had to be done. Rejects with
  // FailedPrecondition and the program's message, or with the way it ended: the header of the
  // request's unit says what the disk has then. Dropping the promise ends the program.
  using Fill = kj::Function<void(rpc::InstallRequest::Builder)>;
  virtual kj::Promise<bool> run(Fill fill) = 0;
  // Like run(), for a request whose answer has the content of BOOT after it. `archive`: a
  // descriptor; -1 if the request needs none.
  using Hear = kj::Function<void(rpc::Slots::Reader)>;
  virtual kj::Promise<void> slots(Fill fill, Hear hear, int archive) = 0;
  kj::Promise<void> slots(Fill fill, Hear hear) { return slots(kj::mv(fill), kj::mv(hear), -1); }

  // Makes an XFS on a partition whose first `empty` bytes are zero. Rejects, and changes nothing,
  // if the partition has other content; after another error it has an unfinished XFS.
  kj::Promise<void> format(kj::String device, kj::String label, uint64_t empty);
  // Overwrites the first bytes of a partition with zeros. After an error some of them may be zero.
  kj::Promise<void> clear(kj::String device, uint64_t bytes);
};

class RealInstaller final : public Installer, private kj::TaskSet::ErrorHandler {
 public:
  // Returns the content of a disk.
  using Look = kj::Function<kj::Promise<FoundOnDisk>(kj::StringPtr disk)>;
  RealInstaller(kj::AsyncIoContext& io, kj::Function<void(kj::StringPtr line)> say, Look look,
                kj::StringPtr confine = kConfine, kj::StringPtr program = kInstaller)
      : io(io),
        say(kj::mv(say)),
        look(kj::mv(look)),
        confine(confine),
        program(program),
        reaping(*this) {}

  kj::Promise<bool> run(Fill fill) override;
  // Does the same; `progress` gets the lines that the console gets otherwise.
  using Progress = kj::Function<void(kj::StringPtr line)>;
  kj::Promise<bool> run(Fill fill, Progress progress);
  kj::Promise<void> slots(Fill fill, Hear hear, int archive) override;
  using Installer::slots;

 private:
  kj::AsyncIoContext& io;
  kj::Function<void(kj::StringPtr line)> say;
  Look look;
  kj::StringPtr confine, program;
  kj::TaskSet reaping;

  using Answered = kj::Function<void(rpc::InstallAnswer::Reader)>;
  kj::Promise<void> fillFound(rpc::InstallRequest::Builder request);
  kj::Promise<void> ask(Fill fill, Answered answered, int archive, Progress& progress);
  kj::Promise<void> converse(kj::AsyncIoStream& stream, kj::Array<capnp::word> request,
                             Answered& answered, Progress& progress);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
