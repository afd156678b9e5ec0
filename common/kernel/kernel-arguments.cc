#include "common/kernel/kernel-arguments.h"

#include "common/base/file.h"

namespace talos {
namespace {

bool isSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0';
}

}  // namespace

KernelArguments::KernelArguments(kj::ArrayPtr<const char> text) {
  size_t at = 0;
  while (at < text.size()) {
    while (at < text.size() && isSpace(text[at])) at++;
    size_t begin = at;
    while (at < text.size() && !isSpace(text[at])) at++;
    if (begin == at) break;
    size_t equals = begin;
    while (equals < at && text[equals] != '=') equals++;
    auto value = equals < at ? text.slice(equals + 1, at) : text.slice(at, at);
    arguments.add(Argument{kj::heapString(text.slice(begin, equals)), kj::heapString(value)});
  }
}

KernelArguments KernelArguments::ofThisKernel() {
  return KernelArguments(readFile("/proc/cmdline").asArray());
}

kj::Maybe<kj::StringPtr> KernelArguments::first(kj::StringPtr key) const {
  for (auto& a : arguments) {
    if (a.key == key) return kj::StringPtr(a.value);
  }
  return nullptr;
}

kj::Vector<kj::StringPtr> KernelArguments::all(kj::StringPtr key) const {
  kj::Vector<kj::StringPtr> values;
  for (auto& a : arguments) {
    if (a.key == key) values.add(a.value);
  }
  return values;
}

bool KernelArguments::contains(kj::StringPtr key, kj::StringPtr value) const {
  for (auto& a : arguments) {
    if (a.key == key && a.value == value) return true;
  }
  return false;
}

}  // namespace talos
