#include "machined/install/serve.h"

#include <kj/debug.h>
#include <kj/io.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/foreign/frame.h"
#include "machined/install/installation.h"
#include "rpc/install.capnp.h"

namespace talos::install {
namespace {

constexpr size_t kMostRequestWords = 64u << 10;

class Brain {
 public:
  explicit Brain(int socket) : in(socket), out(socket) {}

  kj::Array<capnp::word> hear() {
    uint32_t size = 0;
    in.read(&size, sizeof(size));
    KJ_REQUIRE(size <= kMostRequestWords);
    auto words = kj::heapArray<capnp::word>(size);
    in.read(words.asBytes().begin(), words.asBytes().size());
    return words;
  }
  void tell(kj::FunctionParam<void(rpc::InstallAnswer::Builder)> fill) {
    capnp::MallocMessageBuilder message;
    fill(message.initRoot<rpc::InstallAnswer>());
    auto words = machined::frameOf(message);
    auto size = static_cast<uint32_t>(words.size());
    out.write(&size, sizeof(size));
    out.write(words.asBytes().begin(), words.asBytes().size());
  }

 private:
  kj::FdInputStream in;
  kj::FdOutputStream out;
};

System runningSystem() {
  return {.image = rootImage(readFile("/proc/self/mountinfo"))};
}

bool carryOut(rpc::InstallRequest::Reader request, Say& say) {
  switch (request.which()) {
    case rpc::InstallRequest::WRITE: {
      auto wish = request.getWrite();
      return write({.disk = wish.getDisk(),
                    .wipe = wish.getWipe(),
                    .arguments = wish.getArguments(),
                    .again = wish.getAgain()},
                   runningSystem(), say);
    }
    case rpc::InstallRequest::FINISH: {
      auto wish = request.getFinish();
      finish(wish.getDisk(), wish.getBootLoader(), runningSystem(), say);
      return true;
    }
    case rpc::InstallRequest::FORMAT: {
      auto wish = request.getFormat();
      format(wish.getDevice(), wish.getLabel(), wish.getEmpty());
      return true;
    }
    case rpc::InstallRequest::GROW:
      return grow(request.getGrow());
    case rpc::InstallRequest::NONE:
      break;
  }
  fail(ErrorKind::kUnimplemented, "this installer does not know the request");
}

}  // namespace

int serve(int socket) {
  auto failure = kj::runCatchingExceptions([&]() {
    Brain brain(socket);
    auto words = brain.hear();
    capnp::FlatArrayMessageReader message(words, machined::readerOptions(words.size()));
    Say say = [&](kj::StringPtr line) {
      brain.tell([&](rpc::InstallAnswer::Builder out) { out.setDoing(line); });
    };
    bool changed = false;
    kj::Maybe<kj::String> problem;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   changed = carryOut(message.getRoot<rpc::InstallRequest>(), say);
                 })) {
      problem = messageOf(*e);
    }
    brain.tell([&](rpc::InstallAnswer::Builder out) {
      KJ_IF_MAYBE (text, problem) {
        out.setFailed(*text);
      } else {
        out.setDone(changed);
      }
    });
  });
  return failure == nullptr ? 0 : 1;
}

}  // namespace talos::install
