// One process of machined/confined/parser, started for one request.
//
// It is started by the exec wrapper (machined/confined/sandbox) with the socket to the brain as
// descriptor 3, if need be a connection as descriptor 4, and nothing else: user 53, no capability,
// an empty environment, no standard streams, the system call filter `parser` (one that resolves
// names: `resolver`, that reads a disk: `prober`), a Landlock ruleset without files (without others
// than those of names or of sysfs), and limits. It dies with the object and with the brain: the
// kernel sends it SIGKILL when the thread that started it ends, and the filter does not let it
// change that. It is this brain's own child, not one of process 1's, because nobody after this
// brain could read its answer; should it be a zombie when the brain dies, process 1 reaps it as any
// orphan.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/io.h>
#include <kj/vector.h>

#include "common/base/node-layout.h"

namespace talos::machined {

// Of addresses, the program's own 30 MiB included. The largest configs took 90 MiB: room is left
// for larger schemas.
constexpr uint64_t kParserMemory = 512u << 20;

struct ParserPrograms {
  kj::StringPtr confine = kConfine;
  kj::StringPtr parse = kParse;
};

// Additional rights: to ask the DNS servers that /etc names, with sockets of IP and no others; to
// read a disk by its descriptor, and in sysfs which disk it is.
enum class ParserRights { kNone, kNames, kDisk };

// The command line of the parser: the exec wrapper with all that it takes away.
kj::Vector<kj::String> parserCommand(const ParserPrograms& programs, kj::Duration timeout,
                                     ParserRights rights = ParserRights::kNone);

// Of the request and of the connection.
constexpr int kParserRequestFd = 3, kParserConnectionFd = 4;

class ConfinedChild {
 public:
  // `connection`: a descriptor that it gets a duplicate of; -1: none. Throws when it cannot be
  // started. After `timeout` of CPU time it ends by itself.
  ConfinedChild(kj::AsyncIoContext& io, const ParserPrograms& programs, int connection,
                kj::Duration timeout, ParserRights rights = ParserRights::kNone);
  // Another program, with this command line, and the socket as its descriptor 3.
  ConfinedChild(kj::AsyncIoContext& io, kj::ArrayPtr<const kj::String> command,
                int connection = -1);
  ~ConfinedChild() noexcept(false);  // kills it
  KJ_DISALLOW_COPY_AND_MOVE(ConfinedChild);

  kj::AsyncIoStream& stream() { return *socket; }
  // Kills it, and resolves when it is reaped, with how it ended: "killed by signal 9 (Killed)". One
  // that is destroyed otherwise stays a zombie for as long as the brain lives.
  static kj::Promise<kj::String> end(kj::Own<ConfinedChild> child);

 private:
  kj::UnixEventPort& port;
  kj::AutoCloseFd pidfd;
  kj::Own<kj::AsyncIoStream> socket;
};

}  // namespace talos::machined
