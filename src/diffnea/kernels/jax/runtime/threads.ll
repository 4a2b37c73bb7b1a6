; Threads: who takes which piece. Whoever has time takes the next turn; no one waits for a thread that has not begun.

; Ask XLA's pool for threads, one fewer than it has: the caller works, too. They may come late or never.
define internal void @invite(ptr %frame, ptr %job) nounwind {
entry:
  %turns = get Job.turns %job
  %users = at Job.users %job
  %number = alloca i64
  %threads = alloca %Threads
  %schedule = alloca %Schedule
  store i64 1, ptr %number
  %several = icmp sgt i64 %turns, 1
  br i1 %several, label %ask, label %end
ask:
  %context = get Frame.context %frame
  set Threads.bytes %threads, 32
  set Threads.extension %threads, null
  set Threads.context %threads, %context
  set Threads.number %threads, %number
  %how.many = call ptr @function(ptr %frame, i64 $num_threads)
  %trouble = call ptr %how.many(ptr %threads)
  %pool = icmp eq ptr %trouble, null
  br i1 %pool, label %begin, label %alone
alone:
  call void @forget(ptr %frame, ptr %trouble)
  br label %end
begin:
  %available = load i64, ptr %number
  %useful = call i64 @llvm.smin.i64(i64 %available, i64 %turns)
  set Schedule.bytes %schedule, 40
  set Schedule.extension %schedule, null
  set Schedule.context %schedule, %context
  set Schedule.task %schedule, @task
  set Schedule.data %schedule, %job
  %do = call ptr @function(ptr %frame, i64 $schedule)
  br label %another
another:
  %invited = phi i64 [ 1, %begin ], [ %invited.next, %invitation ]
  %enough = icmp sge i64 %invited, %useful
  br i1 %enough, label %end, label %invitation
invitation:
  %before = atomicrmw add ptr %users, i64 1 monotonic
  %refusal = call ptr %do(ptr %schedule)
  %invited.next = add i64 %invited, 1
  %accepted = icmp eq ptr %refusal, null
  br i1 %accepted, label %another, label %refused
refused:
  %fewer = atomicrmw sub ptr %users, i64 1 monotonic
  call void @forget(ptr %frame, ptr %refusal)
  br label %end
end:
  ret void
}

; What an invited thread does. If it comes late, all turns are taken, and it must look at nothing but the job.
define internal void @task(ptr %job) nounwind {
  %next.at = at Job.next %job
  %next = load atomic i64, ptr %next.at monotonic, align 8
  %turns = get Job.turns %job
  %late = icmp sge i64 %next, %turns
  br i1 %late, label %leave, label %settle
settle:
  %kernel = get Job.kernel %job
  %scratch = call ptr @new_scratch(ptr %kernel)
  %none = icmp eq ptr %scratch, null
  br i1 %none, label %leave, label %help
help:
  call void @work(ptr %job, ptr %scratch)
  call void @free(ptr %scratch)
  br label %leave
leave:
  call void @release(ptr %job)
  ret void
}

define internal void @release(ptr %job) nounwind {
  %users = at Job.users %job
  %before = atomicrmw sub ptr %users, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %drop, label %keep
drop:
  call void @free(ptr %job)
  ret void
keep:
  ret void
}

; Until every turn is done: those that are not are at work.
define internal void @wait(ptr %job) nounwind {
entry:
  %turns = get Job.turns %job
  %done.at = at Job.done %job
  br label %look
look:
  %done = load atomic i64, ptr %done.at acquire, align 8
  %all = icmp sge i64 %done, %turns
  br i1 %all, label %end, label %pause
pause:
  %ignored = call i32 @sched_yield()
  br label %look
end:
  ret void
}

; Take turns until there are none. `held` is the model whose shared values are in the scratch memory.
define internal void @work(ptr %job, ptr %memory) nounwind {
entry:
  %kernel = get Job.kernel %job
  %scratch = call ptr @aligned(ptr %memory)
  call void @place_copies(ptr %kernel, ptr %scratch)
  %pieces = get Job.pieces %job
  %all = get Job.all_pieces %job
  %turn = get Job.turn %job
  %turns = get Job.turns %job
  %next = at Job.next %job
  %done = at Job.done %job
  br label %take
take:
  %held = phi i64 [ -1, %entry ], [ %model, %over ]
  %mine = atomicrmw add ptr %next, i64 1 monotonic
  %none = icmp sge i64 %mine, %turns
  br i1 %none, label %end, label %begin
begin:
  %first = mul i64 %mine, %turn
  %beyond = add i64 %first, %turn
  %last = call i64 @llvm.smin.i64(i64 %beyond, i64 %all)
  br label %piece
piece:
  %k = phi i64 [ %first, %begin ], [ %k.next, %piece ]
  %before = phi i64 [ %held, %begin ], [ %model, %piece ]
  %model = sdiv i64 %k, %pieces
  %new = icmp ne i64 %model, %before
  call void @piece(ptr %job, ptr %scratch, i64 %k, i64 %model, i1 %new)
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %last
  br i1 %more, label %piece, label %over
over:
  %finished = atomicrmw add ptr %done, i64 1 release
  br label %take
end:
  ret void
}

define internal ptr @new_scratch(ptr %kernel) nounwind {
  %bytes = get Kernel.scratch %kernel
  %more = add i64 %bytes, 64
  %memory = call ptr @malloc(i64 %more)
  ret ptr %memory
}

define internal ptr @aligned(ptr %memory) nounwind {
  %address = ptrtoint ptr %memory to i64
  %above = add i64 %address, 63
  %aligned = and i64 %above, -64
  %shift = sub i64 %aligned, %address
  %pointer = getelementptr i8, ptr %memory, i64 %shift
  ret ptr %pointer
}
