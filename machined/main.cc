// The brain of the machine, started by process 1 with its socket as descriptor 3 (brain/wiring.h).
#include <kj/async-io.h>
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/memory/process-memory.h"
#include "machined/brain/wiring.h"
#include "machined/confined/sandbox/brain-rights.h"
#include "machined/process1/process1-socket.h"

int main(int, char**) {
  using namespace talos;
  auto failure = kj::runCatchingExceptions([]() {
    keepHeapSmall();
    refuseCoreDumps();  // its memory holds the machine config
    confine::keepBrainRights();
    auto io = kj::setupAsyncIo();
    machined::SocketProcess1 toProcess1(io.unixEventPort, kj::AutoCloseFd(process1::kBrainFd));
    machined::Wiring brain(io, toProcess1);
    brain.run().wait(io.waitScope);
  });
  KJ_IF_MAYBE (e, failure) log::error("exiting", {{"error", messageOf(*e)}});
  return 1;  // process 1 starts the next brain
}
