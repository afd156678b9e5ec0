// Reads the present stack of a service's program: on a signal (crash::kShowStack) the program
// writes its stack into its page, and continues. One request at a time for each service.
#pragma once

#include <kj/timer.h>

#include <set>

#include "machined/crashes/service-pages.h"

namespace talos::machined {

class ProgramStacks {
 public:
  static constexpr auto kDeadline = 2 * kj::SECONDS;

  // `self`: the service of this process. All arguments outlive it.
  ProgramStacks(ServicePages& pages, Process1& process1, kj::Timer& timer, kj::StringPtr self)
      : pages(pages), process1(process1), timer(timer), self(self) {}
  KJ_DISALLOW_COPY_AND_MOVE(ProgramStacks);

  // Returns the stack of a running service. FailedPrecondition if it is not a program of this
  // system; DeadlineExceeded if it writes nothing, because it is stopped, or in the kernel;
  // Unavailable during another request.
  kj::Promise<crash::CrashRecord> of(kj::StringPtr service);

 private:
  ServicePages& pages;
  Process1& process1;
  kj::Timer& timer;
  kj::StringPtr self;
  std::set<std::string> looking;
};

}  // namespace talos::machined
