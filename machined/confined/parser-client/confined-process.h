// One process of machined/confined/parser, started for one request.
//
// It starts with the socket to the brain as descriptor 3, if needed a connection as descriptor 4,
// and nothing else, and drops its rights with the code of the exec wrapper
// (machined/confined/sandbox) before it reads a byte: user 53, no capability, an empty environment,
// no standard streams, the system call filter `parser` (`resolver` to resolve names, `prober` to
// read a disk), a Landlock ruleset without files (or with only the files for names, or sysfs), and
// limits. The process dies with the object and with the brain: the kernel sends it SIGKILL when the
// thread that started it ends, and the filter keeps it from changing this. It is a child of the
// brain, not of process 1, because a later brain could not read its answer. If it is a zombie when
// the brain dies, process 1 reaps it as any orphan.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/io.h>
#include <kj/vector.h>

#include "common/base/node-layout.h"

namespace talos::machined {

// Limit of the address space, including the program's own 30 MiB. The largest configs took 90 MiB;
// the rest is for larger schemas.
constexpr uint64_t kParserMemory = 512u << 20;

struct ParserPrograms {
  kj::StringPtr confine = "";  // the exec wrapper, for a program that cannot drop its rights itself
  kj::StringPtr parse = kParse;
};

// Additional rights. kNames: to query the DNS servers of /etc, with IP sockets only. kDisk: to read
// a disk by its descriptor, and to look up the disk in sysfs.
enum class ParserRights { kNone, kNames, kDisk };

// Returns the command line of the parser, or of its exec wrapper, with the options for all
// restrictions.
kj::Vector<kj::String> parserCommand(const ParserPrograms& programs, kj::Duration timeout,
                                     ParserRights rights = ParserRights::kNone);

// Descriptors of the request and of the connection.
constexpr int kParserRequestFd = 3, kParserConnectionFd = 4;

class ConfinedChild {
 public:
  // `connection`: a descriptor that the process gets a duplicate of, or -1. Throws if the process
  // cannot be started. The process exits after `timeout` of CPU time.
  ConfinedChild(kj::AsyncIoContext& io, const ParserPrograms& programs, int connection,
                kj::Duration timeout, ParserRights rights = ParserRights::kNone);
  // Starts another program with this command line and the socket as its descriptor 3.
  ConfinedChild(kj::AsyncIoContext& io, kj::ArrayPtr<const kj::String> command,
                int connection = -1);
  ~ConfinedChild() noexcept(false);  // kills it
  KJ_DISALLOW_COPY_AND_MOVE(ConfinedChild);

  kj::AsyncIoStream& stream() { return *socket; }
  // Kills the process, and resolves when it is reaped, with how it ended: "killed by signal 9
  // (Killed)". A process whose object is only destroyed stays a zombie as long as the brain lives.
  static kj::Promise<kj::String> end(kj::Own<ConfinedChild> child);

 private:
  kj::UnixEventPort& port;
  kj::AutoCloseFd pidfd;
  kj::Own<kj::AsyncIoStream> socket;
};

}  // namespace talos::machined
