#include "etcd-supervisor/plan/connect-request.h"

#include <string_view>

#include "common/base/error.h"

namespace talos::supervisor {

kj::Maybe<size_t> headSize(kj::ArrayPtr<const char> received) {
  std::string_view text(received.begin(), received.size());
  auto end = text.find("\r\n\r\n");
  if (end == std::string_view::npos) return nullptr;
  return end + 4;
}

Endpoint connectTarget(kj::ArrayPtr<const char> head) {
  std::string_view text(head.begin(), head.size());
  auto line = text.substr(0, text.find("\r\n"));
  constexpr std::string_view kMethod = "CONNECT ";
  if (!line.starts_with(kMethod)) {
    fail(ErrorKind::kInvalidArgument, "not a CONNECT request, which is all that this proxy knows");
  }
  line.remove_prefix(kMethod.size());
  auto target = line.substr(0, line.find(' '));
  KJ_IF_MAYBE (endpoint, Endpoint::parse(kj::heapString(target.data(), target.size()))) {
    return *endpoint;
  }
  fail(ErrorKind::kInvalidArgument, "the target of CONNECT is not an address with a port");
}

}  // namespace talos::supervisor
