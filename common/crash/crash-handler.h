// A program that dies of a fault says where: a handler of the signals SIGSEGV, SIGBUS, SIGILL,
// SIGFPE and SIGABRT writes a record (crash-record.h) into the page that the program shares with
// machined (service-page.h), and then the signal ends the program as it would have without it.
//
// The handler allocates nothing, takes no lock and asks the kernel only to read a descriptor that
// is open already, so it works in every confinement, in a full cgroup, and with a broken heap. It
// has a stack of its own for the first thread, whose overflow is a fault too. A fault in the
// handler ends the program; what was written until then is kept, line by line.
//
// The signal kShowStack makes the same record without a map, of a program that goes on. The thread
// that gets it is the kernel's choice: the first one, unless that has blocked it.
//
// The record has no contents of memory: addresses of the code, the stack and the faulting access,
// and the names of mappings. General registers are left out, because they may hold a piece of a
// secret. When the page says so, a core follows, which has some of both (core-writer.h).
#pragma once

#include <kj/string.h>
#include <signal.h>

namespace talos::crash {

constexpr int kShowStack = SIGUSR2;

// For main(), before anything else: takes the page from the environment (kServicePageVariable), so
// that no child inherits it, and follows its log level. Without one, as in tests, it does nothing.
void reportCrashes(const char* program);

// The same with a page that is open: `page` is mapped, and stays open. Throws when it is no page.
void reportCrashesTo(int page, const char* program);

// The GNU build id of this program in hexadecimal; "" when it has none.
kj::String ownBuildId();

}  // namespace talos::crash
