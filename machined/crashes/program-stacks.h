// Where the program of a service is at this moment: a signal (crash::kShowStack) makes it write
// that into its page, and it goes on. One look at a time for each service.
#pragma once

#include <kj/timer.h>

#include <set>

#include "machined/crashes/service-pages.h"

namespace talos::machined {

class ProgramStacks {
 public:
  static constexpr auto kDeadline = 2 * kj::SECONDS;

  // `self`: the service that is this process. All arguments outlive it.
  ProgramStacks(ServicePages& pages, Process1& process1, kj::Timer& timer, kj::StringPtr self)
      : pages(pages), process1(process1), timer(timer), self(self) {}
  KJ_DISALLOW_COPY_AND_MOVE(ProgramStacks);

  // The service runs. FailedPrecondition when it is not a program of this system; DeadlineExceeded
  // when it writes nothing: it is stopped, or in the kernel; Unavailable during another look.
  kj::Promise<crash::CrashRecord> of(kj::StringPtr service);

 private:
  ServicePages& pages;
  Process1& process1;
  kj::Timer& timer;
  kj::StringPtr self;
  std::set<std::string> looking;
};

}  // namespace talos::machined
