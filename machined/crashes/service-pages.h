// The pages that the programs of this system share with the brain (common/crash/service-page.h).
//
// Each is a memory file of a fixed size, sealed, made once in the life of the machine and held by
// process 1 as "page/<service>": it outlives the program and the brain, so a record that was
// written while no brain ran is found by the next brain, and a level stays until the next boot. The
// brain reads and writes it like a file, and trusts no content in it.
#pragma once

#include <kj/map.h>

#include "common/base/log.h"
#include "common/crash/crash-record.h"
#include "machined/process1/process1.h"

namespace talos::machined {

class ServicePages {
 public:
  // Takes over the predecessor's pages.
  explicit ServicePages(Process1& process1);
  KJ_DISALLOW_COPY_AND_MOVE(ServicePages);

  // Returns the page's descriptor, which lives as long as this object; makes a missing page.
  // Resolves when process 1 holds it.
  kj::Promise<int> open(kj::StringPtr service);

  bool has(kj::StringPtr service) const { return pages.find(service) != nullptr; }

  // Takes the service's crash record and its core: the page has no record afterwards.
  kj::Maybe<crash::CrashRecord> takeRecord(kj::StringPtr service);
  // Takes the complete record of a program that continues (crash::kShowStack). A crash record
  // stays.
  kj::Maybe<crash::CrashRecord> takeStack(kj::StringPtr service);

  bool keepsCores(kj::StringPtr service) const;
  // FailedPrecondition when the service has no page: it is not a program of this system.
  void setKeepsCores(kj::StringPtr service, bool keep);

  log::Level level(kj::StringPtr service) const;
  // FailedPrecondition when the service has no page: it is not a program of this system.
  void setLevel(kj::StringPtr service, log::Level level);

 private:
  Process1& process1;
  kj::TreeMap<kj::String, kj::AutoCloseFd> pages;

  int requirePage(kj::StringPtr service, kj::StringPtr lacks) const;
  static kj::Maybe<crash::CrashRecord> recordIn(int page);
  static kj::Array<kj::byte> takeCore(int page);
  static void removeRecord(int page);
};

}  // namespace talos::machined
