// Reports where a program dies of a fault: a handler of the signals SIGSEGV, SIGBUS, SIGILL, SIGFPE
// and SIGABRT writes a record (crash-record.h) into the page that the program shares with machined
// (service-page.h); then the signal ends the program as it would have without the handler.
//
// The handler allocates nothing, takes no lock and asks the kernel only to read an open descriptor,
// so it works in every confinement, in a full cgroup, and with a damaged heap. It has a separate
// stack for the first thread, whose overflow is a fault too. A fault in the handler ends the
// program; the lines that were written until then are kept.
//
// The signal kShowStack makes the same record, without a map, of a program that continues. The
// kernel chooses the thread that gets the signal: the first one, unless that has blocked it.
//
// The record has no contents of memory: addresses of the code, the stack and the faulting access,
// and the names of mappings. General registers are left out, because they may hold a piece of a
// secret. If the page says so, a core follows, which has registers and some memory (core-writer.h).
#pragma once

#include <kj/string.h>
#include <signal.h>

namespace talos::crash {

constexpr int kShowStack = SIGUSR2;

// For main(), before anything else: takes the page from the environment (kServicePageVariable), so
// that no child inherits it, and follows its log level. Does nothing without a page, as in tests.
void reportCrashes(const char* program);

// Does the same with an open page: `page` is mapped, and stays open. Throws if it is not such a
// page.
void reportCrashesTo(int page, const char* program);

// Returns the GNU build id of this program in hexadecimal; "" if it has none.
kj::String ownBuildId();

}  // namespace talos::crash
