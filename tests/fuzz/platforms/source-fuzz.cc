// link: machined-confined-parser
// Answers of a web server: a redirect, and a body that may be packed; and the kernel
// parameters, which a boot server may write.
#include <kj/debug.h>

#include "common/base/error.h"
#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/confined/parser/config-text.h"
#include "tests/fuzz/fuzz-target.h"

FUZZ_TARGET(source) {
  using namespace talos;
  using namespace talos::machined;
  using parse::requireText, parse::unpack;
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  auto expected = [](kj::Function<void()> f) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { f(); })) {
      KJ_ASSERT(kindOf(*e) == ErrorKind::kInvalidArgument, *e);
    }
  };
  for (bool secure : {false, true}) {
    HttpSource from;
    from.secure = secure;
    from.host = kj::str("h");
    from.authority = kj::str("h:8080");
    from.target = kj::str("/a/b?c");
    expected([&]() {
      auto to = redirected(from, text);
      KJ_ASSERT(to.secure || !secure, "from https to http");
      KJ_ASSERT(to.port != 0 && to.host.size() > 0 && to.target.startsWith("/"));
      for (char c : kj::str(to.authority, to.target)) {
        KJ_ASSERT(static_cast<unsigned char>(c) > ' ', "a header could be smuggled in");
      }
    });
  }
  expected([&]() {
    auto plain = unpack(kj::heapArray(text.asArray()));
    KJ_ASSERT(plain.size() <= kj::max(size, kMostConfigBytes));
    requireText(plain);
  });
  auto line = kj::str("talos.config=", text);
  expected([&]() {
    configSource(KernelArguments(line.asArray()), {.uuid = kj::str("uuid"), .mac = kj::str("m")});
  });
  auto authorities = kj::str("talos.config.ca=", text);
  expected([&]() { configAuthorities(KernelArguments(authorities.asArray())); });
  return 0;
}
