#include "common/memory/secret-array.h"

#include <gtest/gtest.h>

namespace talos {
namespace {

// Checks memory that is released.
struct Watching : SecretDisposer {
  mutable size_t released = 0, notZero = 0, size = 0;
  void release(void* first) const override {
    ++released;
    for (size_t i = 0; i < size; ++i) notZero += static_cast<kj::byte*>(first)[i] != 0;
    SecretDisposer::release(first);
  }
};

// Catches: memory with a secret that is released without being zeroed: by an array that was moved,
// replaced, or owned by an object that an exception destroys; a copy with another text.
TEST(SecretArray, IsZeroWhenItGoes) {
  Watching watching;
  auto text = "a secret"_kj.asBytes();
  watching.size = text.size();
  {
    auto first = secretArray(text, watching);
    EXPECT_TRUE(first.asPtr() == text);
    auto second = kj::mv(first);
    EXPECT_EQ(watching.released, 0u);
    second = secretArray(text, watching);
    EXPECT_EQ(watching.released, 1u);
    EXPECT_TRUE(kj::runCatchingExceptions([&]() {
                  kj::Array<kj::byte> owned = kj::mv(second);
                  KJ_FAIL_REQUIRE("ends");
                }) != nullptr);
  }
  EXPECT_EQ(watching.released, 2u);
  EXPECT_EQ(watching.notZero, 0u);
  EXPECT_EQ(secretArray(0).size(), 0u);
}

}  // namespace
}  // namespace talos
