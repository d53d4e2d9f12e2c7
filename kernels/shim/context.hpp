// A fiber's registers and stack, and the switch from one to another.
//
// swapcontext asks the operating system for the signal mask at every switch, which takes longer than what a thread does
// between two. So the switch is a few instructions where they are known; AddressSanitizer must see it, and gets swapcontext.
#pragma once

#include <cstddef>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)

#include <cstdint>

extern "C" __attribute__((visibility("hidden"))) void fiber_switch(void** from, void* to);

// Saves what a call must leave as it was, exchanges the stacks, and restores.
asm(R"(
    .text
    .hidden fiber_switch
    .globl fiber_switch
    .type fiber_switch, @function
fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size fiber_switch, . - fiber_switch
)");

namespace fiber {

struct Context {
    void* stack = nullptr;

    // Begins at `entry`, which never returns, when it is first switched to.
    void prepare(unsigned char* start, size_t bytes, void (*entry)()) {
        constexpr unsigned SAVED = 6; // registers, below the address that `ret` goes to
        auto* top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(start + bytes) & ~uintptr_t{15});
        *--top = nullptr;
        *--top = reinterpret_cast<void*>(entry);
        stack = top - SAVED;
    }
};

inline void switch_context(Context& from, Context& to) { fiber_switch(&from.stack, to.stack); }

} // namespace fiber

#else

#include <ucontext.h>

namespace fiber {

struct Context {
    ucontext_t registers;

    void prepare(unsigned char* start, size_t bytes, void (*entry)()) {
        getcontext(&registers);
        registers.uc_stack.ss_sp = start;
        registers.uc_stack.ss_size = bytes;
        makecontext(&registers, entry, 0);
    }
};

inline void switch_context(Context& from, Context& to) { swapcontext(&from.registers, &to.registers); }

} // namespace fiber

#endif
