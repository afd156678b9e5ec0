// The kernel of a system, a bzImage (Linux: Documentation/arch/x86/boot.rst). Pure; the bytes are
// foreign.
#pragma once

#include <kj/common.h>
#include <stdint.h>

namespace talos::install {

constexpr size_t kKernelHeadBytes = 4096;

// `head` are the first bytes of a file of this size. InvalidArgument when it is no kernel, or has
// less than its header says.
void checkKernel(kj::ArrayPtr<const kj::byte> head, uint64_t size);

}  // namespace talos::install
